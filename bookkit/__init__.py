"""How the book shows the library: listings, figures, controls and panels."""
