"""Attention other than softmax over all pairs."""
