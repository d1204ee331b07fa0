"""Pairs to learn from: tasks with a known answer, a small grammar, real captions."""
