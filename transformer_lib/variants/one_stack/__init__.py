"""An encoder alone and a decoder alone, and what they learn from."""
