"""Look inside a run: every line with what it made, and the attention of every head."""

from transformer_lib.inspection.listing import Walk, walk
from transformer_lib.inspection.recording import record_attention

__all__ = ["Walk", "record_attention", "walk"]
