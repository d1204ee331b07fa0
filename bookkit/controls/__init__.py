"""Controls: what the reader moves, computed by the page itself."""
