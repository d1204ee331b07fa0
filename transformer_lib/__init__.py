"""The finished version of every piece that the book builds.

Shape letters, the same in every module and on every page:

* **B** sentences in a batch; it always comes first
* **T** positions that ask: queries, target tokens
* **S** positions that are asked: keys, source tokens
* **H** attention heads

Features go by name: ``d_model``, ``d_k``, ``d_ff``. ``...`` stands for any leading
axes. A mask is boolean, ``True`` = may attend, and broadcasts to (B, H, T, S).
"""
