"""The config: every size and choice of a Transformer."""

from dataclasses import dataclass
from typing import Any, Self

from transformer_lib.checks import (
    require_field_types,
    require_finite,
    require_not_negative,
    require_positive,
)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What distinguishes one Transformer from another.

    The defaults are those of the paper's base model, except that the embedding tables
    are separate: sharing them needs one vocabulary. ``base`` shares and ties them.

    Args:
        src_vocab_size: Tokens of the source's vocabulary.
        tgt_vocab_size: Tokens of the target's vocabulary.
        pad_id: The id that pads short sentences, in both languages.
        bos_id: The id that every target begins with.
        eos_id: The id that ends a sentence. It may be ``bos_id``, as in GPT-2, or
            ``pad_id``, which is never written and so ends none.
        d_model: Width of the vectors between the layers.
        num_heads: Number of attention heads.
        d_ff: Inner width of the feed-forward networks.
        num_layers: Layers of the encoder, and of the decoder.
        dropout: Share of the embeddings and of each sublayer's output that is dropped.
        attention_dropout: Share of the attention weights dropped; slow on a CPU.
        feed_forward_dropout: Share of the feed-forward networks' inner features
            dropped.
        norm_first: Pre-norm, with a final norm on each stack, instead of post-norm.
        norm_eps: Added to the variance inside each norm.
        bias: Whether the attention's projections add a bias.
        output_bias: Whether the final projection adds a bias, tied or not.
        activation: Of the feed-forward networks: ``"relu"``, ``"gelu"``,
            ``"gelu_tanh"`` or ``"silu"`` (see ``FeedForward``).
        positions: Added to the embeddings: ``"interleaved"``, ``"concatenated"`` or
            ``"learned"`` (see ``PositionalEncoding``).
        max_len: The longest sequence, in tokens.
        share_embeddings: One table for source and target.
        tie_output: Also use the target's table as the output projection.

    Raises:
        ValueError: If a value is not of its type, ``bos_id`` is ``pad_id``,
            ``bos_id`` or ``eos_id`` is not in the target's vocabulary, ``num_layers``
            is not positive, ``norm_eps`` is negative or infinite, or
            ``share_embeddings`` is asked of different vocabularies. The parts check
            the rest.
    """

    src_vocab_size: int
    tgt_vocab_size: int
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    num_layers: int = 6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    norm_first: bool = False
    norm_eps: float = 1e-5
    bias: bool = True
    output_bias: bool = False
    activation: str = "relu"
    positions: str = "interleaved"
    max_len: int = 1024
    share_embeddings: bool = False
    tie_output: bool = False

    def __post_init__(self) -> None:
        require_field_types(self)
        size = self.tgt_vocab_size  # None where nothing is written
        for name, value in {"bos_id": self.bos_id, "eos_id": self.eos_id}.items():
            if size is not None and not 0 <= value < size:
                raise ValueError(
                    f"{name} must be below tgt_vocab_size, got {value} and {size}"
                )
        if size is not None and self.bos_id == self.pad_id:  # it would be hidden
            raise ValueError(
                f"bos_id must differ from pad_id, got {self.bos_id} and {self.pad_id}"
            )
        require_positive(num_layers=self.num_layers)
        require_not_negative(norm_eps=self.norm_eps)
        require_finite(norm_eps=self.norm_eps)
        if self.share_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ValueError(
                "src_vocab_size and tgt_vocab_size must be equal to share embeddings, "
                f"got {self.src_vocab_size} and {self.tgt_vocab_size}"
            )

    @classmethod
    def base(cls, vocab_size: int = 37_000, **changes: Any) -> Self:
        """Describe the paper's base model: one vocabulary, one table for everything.

        Args:
            vocab_size: Tokens of the vocabulary that both languages share.
            **changes: Any other choice, by name.

        Source: Vaswani et al. (2017), table 3 (base) and section 3.4.
        """
        shared = {"share_embeddings": True, "tie_output": True}
        sizes = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
        return cls(**{**sizes, **shared, **changes})

    @classmethod
    def tensor2tensor(cls, vocab_size: int = 37_000, **changes: Any) -> Self:
        """Describe the base model as tensor2tensor builds it.

        Pre-norm, attention without bias, eps 1e-6, sines then cosines. It also drops a
        tenth of the attention weights and of the inner features, which is slow on a
        CPU: pass ``attention_dropout=0.1, feed_forward_dropout=0.1`` for that.

        Args:
            vocab_size: Tokens of the vocabulary that both languages share.
            **changes: Any other choice, by name.

        Source: tensor2tensor, ``transformer_base`` (Vaswani et al., 2018).
        """
        style = {"norm_first": True, "bias": False, "norm_eps": 1e-6}
        style["positions"] = "concatenated"
        return cls.base(vocab_size, **{**style, **changes})
