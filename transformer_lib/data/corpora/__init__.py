"""What there is to learn from: toy tasks, a grammar, captions, and clouds of points.

Import the module that you need; ``multi30k`` needs pooch.
"""
