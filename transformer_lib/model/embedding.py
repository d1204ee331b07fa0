"""Embeddings: a vector of numbers for every token of the vocabulary."""

import math

from torch import Tensor, nn

from transformer_lib.checks import require_positive, require_tokens


class TokenEmbedding(nn.Module):
    """Look up each token's vector, scale it by sqrt(d_model), and keep padding at zero.

    Padding is zeroed in the output, not in the table: the table may be tied to the
    output projection, whose gradients move every row.

    Args:
        vocab_size: Number of tokens, the rows of the table.
        d_model: Width of a vector.
        pad_id: The id whose vector is zero.

    Raises:
        ValueError: If a size is not positive, or ``pad_id`` is not in the vocabulary.

    Source: Vaswani et al. (2017), section 3.4.
    """

    def __init__(self, vocab_size: int, d_model: int, pad_id: int) -> None:
        super().__init__()
        require_positive(vocab_size=vocab_size, d_model=d_model)
        if not 0 <= pad_id < vocab_size:
            raise ValueError(
                f"pad_id must be below vocab_size, got {pad_id} and {vocab_size}"
            )
        self.pad_id = pad_id
        self.scale = math.sqrt(d_model)
        self.table = nn.Embedding(vocab_size, d_model)

    def forward(self, tokens: Tensor) -> Tensor:
        """Turn token ids into vectors.

        Args:
            tokens: Token ids, shape (B, S), from 0 to vocab_size - 1.

        Returns:
            Shape (B, S, d_model), zero at padding.

        Raises:
            TypeError, ValueError: As ``require_tokens``.
            IndexError: If an id is outside the vocabulary. On a GPU, torch stops with a
                device-side assertion instead.
        """
        require_tokens(tokens=tokens)
        try:
            vectors = self.table(tokens) * self.scale  # (B, S, d_model)
        except IndexError as error:
            raise IndexError(
                f"tokens must be from 0 to {self.table.num_embeddings - 1}, "
                f"got {tokens.min().item()} to {tokens.max().item()}"
            ) from error
        padding = (tokens == self.pad_id).unsqueeze(-1)  # (B, S, 1)
        return vectors.masked_fill(padding, 0.0)
