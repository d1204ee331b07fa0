"""Keys and values kept while decoding, so that no position is projected twice."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class KeysAndValues:
    """The keys and values of one attention layer, shape (B, H, S, d_k) each."""

    def __init__(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Keep only these rows of the batch, in this order; a row may come twice."""
        if self.k is not None:
            self.k = self.k.index_select(0, rows)
            self.v = self.v.index_select(0, rows)


class SelfAttentionCache(KeysAndValues):
    """Keys and values of the target so far; each token adds one position.

    They can be kept because the decoder is causal: later tokens change neither the keys
    nor the values of earlier ones.
    """

    @property
    def length(self) -> int:
        """The number of positions kept."""
        return 0 if self.k is None else self.k.size(2)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest position, and return all of them.

        Args:
            k: Its keys, shape (B, H, 1, d_k).
            v: Its values, shape (B, H, 1, d_k).

        Returns:
            Keys and values of all positions so far, shape (B, H, length, d_k) each.

        Raises:
            ValueError: If there is not exactly one position (the memory belongs in a
                ``CrossAttentionCache``), or another number of sentences than before.
        """
        if k.size(2) != 1:
            raise ValueError(
                f"key must be one new position with a cache, got {k.size(2)}"
            )
        if self.k is not None and len(k) != len(self.k):
            raise ValueError(
                "key must have as many sentences as the cache, "
                f"got {len(k)} and {len(self.k)}"
            )
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat([self.k, k], dim=2)  # (B, H, length, d_k)
            self.v = torch.cat([self.v, v], dim=2)  # (B, H, length, d_k)
        return self.k, self.v


class CrossAttentionCache(KeysAndValues):
    """Keys and values of the memory: projected for the first token, then only read."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: Tensor | None = None

    def holds(self, memory: Tensor) -> bool:
        """Whether the keys and values of this memory are here already.

        Args:
            memory: Shape (B, S, d_model). Pass the same tensor with every token.

        Raises:
            ValueError: If the cache was filled from another tensor: this one belongs to
                another sentence, or in a ``SelfAttentionCache``.
        """
        if self.memory is None:
            return False
        if memory is not self.memory:
            raise ValueError(
                "key must be the memory that the cache was filled from, got another "
                f"tensor of shape {tuple(memory.shape)} and {tuple(self.memory.shape)}"
            )
        return True

    def fill(self, memory: Tensor, k: Tensor, v: Tensor) -> None:
        """Keep what the memory was projected to, shape (B, H, S, d_k) each."""
        self.memory = memory
        # Contiguous, because every later token reads them.
        self.k, self.v = k.contiguous(), v.contiguous()


class DecoderCache:
    """Both caches of every decoder layer. Each batch of sentences needs a new one.

    Args:
        num_layers: Layers of the decoder.
    """

    def __init__(self, num_layers: int) -> None:
        self.layers = [
            (SelfAttentionCache(), CrossAttentionCache()) for _ in range(num_layers)
        ]

    @property
    def length(self) -> int:
        """The number of target positions kept, which is the next token's position."""
        return self.layers[0][0].length

    @contextmanager
    def unchanged_by_errors(self) -> Iterator[None]:
        """Leave the cache as it was if the block raises."""
        parts = [vars(part) for layer in self.layers for part in layer]
        before = [dict(part) for part in parts]
        try:
            yield
        except BaseException:
            for part, was in zip(parts, before, strict=True):
                part.update(was)
            raise

    def select(self, rows: Tensor, *, same_memory: bool = False) -> None:
        """Keep only these rows of the batch, in this order; a row may come twice.

        Args:
            rows: Row numbers, shape (rows).
            same_memory: True if every row is replaced by one with the same memory; the
                cross-attention's keys and values then stay as they are.
        """
        for self_attention, cross_attention in self.layers:
            self_attention.select(rows)
            if not same_memory:
                cross_attention.select(rows)
