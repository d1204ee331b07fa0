"""What shows the library in the book: listings, figures, controls and panels."""
