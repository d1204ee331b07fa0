"""The listings, figures, controls and panels with which the book shows the library."""
