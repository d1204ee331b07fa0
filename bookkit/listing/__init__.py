"""Look inside a run: every line with what it made."""

from bookkit.listing.listing import Walk, walk

__all__ = ["Walk", "walk"]
