"""The laboratory's panels: the real model under the reader's hands."""
