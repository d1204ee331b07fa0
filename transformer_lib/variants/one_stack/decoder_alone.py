"""A decoder alone continues the text that it is given, as GPT does."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from transformer_lib.checks import require_between
from transformer_lib.decoding import next_probabilities
from transformer_lib.model import (
    CrossAttentionCache,
    DecoderCache,
    Encoder,
    EncoderLayer,
    SelfAttentionCache,
    inference,
    initialise,
)
from transformer_lib.variants.modern.transformer import ModernConfig, ModernParts


class CausalLayer(EncoderLayer):
    """A decoder layer without cross-attention: an encoder layer with a cache.

    It is made as an ``EncoderLayer`` is.
    """

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: tuple[SelfAttentionCache, CrossAttentionCache] | None = None,
    ) -> Tensor:
        """Let every position read its own past, then think.

        Args:
            x: Shape (B, T, d_model).
            mask: Boolean, broadcastable to (B, H, T, T); True = may attend.
            cache: What earlier steps left, of which the first is used; then ``x`` is
                the newest position only.

        Returns:
            Shape (B, T, d_model).
        """
        past, _ = cache or (None, None)
        x = self.self_attention_residual(
            x, lambda x: self.self_attention(x, x, x, mask, past)
        )
        return self.feed_forward_residual(x, self.feed_forward)  # (B, T, d_model)


class CausalStack(Encoder):
    """A stack of causal layers, and a final norm for pre-norm layers.

    It is made as an ``Encoder`` is.
    """

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Run the layers one after another.

        Args:
            x: Vectors with positions, shape (B, T, d_model).
            mask: Boolean, broadcastable to (B, H, T, T); True = may attend.
            cache: What earlier steps left; then ``x`` is the newest position only.

        Returns:
            Shape (B, T, d_model).

        Raises:
            ValueError: If ``cache`` has another number of layers.
        """
        caches = [None] * len(self.layers) if cache is None else cache.layers
        for layer, kept in zip(self.layers, caches, strict=True):
            x = layer(x, mask, kept)  # (B, T, d_model)
        return x if self.norm is None else self.norm(x)  # (B, T, d_model)


class DecoderAlone(ModernParts):
    """The right half of a Transformer, which reads nothing but its own past.

    Args:
        config: Its sizes and choices; ``src_vocab_size`` is None.

    Raises:
        ValueError: If the config has a source; the rest as the parts.

    Source: Radford et al. (2018), section 3.1.
    """

    def __init__(self, config: ModernConfig) -> None:
        super().__init__(config)
        if config.src_vocab_size is not None:
            raise ValueError(
                "src_vocab_size must be None for a decoder alone, "
                f"got {config.src_vocab_size}"
            )
        self.tgt_embedding = self.make_embedding(config.tgt_vocab_size)
        self.tgt_positions = self.make_positions()
        self.decoder = self.make_decoder()
        self.output = nn.Linear(
            config.d_model, config.tgt_vocab_size, bias=config.output_bias
        )
        self.dropout = nn.Dropout(config.dropout)
        initialise(self, config.d_model)
        if config.tie_output:
            self.output.weight = self.tgt_embedding.table.weight

    def make_decoder(self) -> CausalStack:
        """Make a stack without cross-attention."""
        layers = [self.make_decoder_layer() for _ in range(self.config.num_layers)]
        return CausalStack(layers, self.make_final_norm())

    def make_decoder_layer(self) -> CausalLayer:
        """Make a layer without cross-attention."""
        attention = self.make_self_attention(causal=True)
        return CausalLayer(attention, self.make_feed_forward(), self.make_residual)

    def forward(self, tgt: Tensor) -> Tensor:
        """Score every possible next token after every prefix.

        Args, Returns and Raises are those of ``Transformer.forward``, without ``src``.
        """
        return self.decode(tgt)  # (B, T, tgt_vocab_size)

    def decode(self, tgt: Tensor, cache: DecoderCache | None = None) -> Tensor:
        """Score the next token after every prefix, perhaps with a cache.

        Args, Returns and Raises are those of ``Transformer.decode``, without a memory.
        """
        start = 0 if cache is None else cache.length
        x = self.tgt_positions(self.tgt_embedding(tgt), start)  # (B, T, d_model)
        mask = self.target_mask(tgt) if cache is None else None
        with nullcontext() if cache is None else cache.unchanged_by_errors():
            return self.output(self.decoder(self.dropout(x), mask, cache))

    def new_cache(self) -> DecoderCache:
        """Make the empty cache that a new batch of texts needs."""
        return DecoderCache(self.config.num_layers)


def continue_tokens(
    model: DecoderAlone,
    prompts: Sequence[Sequence[int]],
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    max_len: int | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """Draw one token after another behind the tokens of each prompt.

    The rows go in step from their first token on, so that none is ever padded: where a
    prompt still has a token, that is taken instead of the drawn one. PAD is never
    written.

    Args:
        model: A model without a source, or a ``FastDecoder`` of one.
        prompts: Token ids, at least one each, of any lengths; the first is often BOS.
        temperature: As for ``next_probabilities``.
        top_k: As for ``next_probabilities``; 1 takes the likeliest token.
        top_p: As for ``next_probabilities``.
        generator: Where the random numbers come from, on the device of the model;
            torch's own without it.
        max_len: The most tokens of a prompt with what follows, EOS included; the
            model's without it.
        use_cache: False computes the whole prefix anew for every token: the same texts,
            slowly.

    Returns:
        For each prompt the ids that follow it, without EOS; none if it fills
        ``max_len``.

    Raises:
        ValueError: If the model has a source, a prompt is empty, holds ``pad_id`` or is
            longer than ``max_len``, or that is above the model's; the rest as
            ``next_probabilities``.

    Source: Radford et al. (2018), section 3.1, for the model.
    """
    config = model.config
    limit = config.max_len if max_len is None else max_len
    _require_prompts(model, prompts, limit)
    device = next(model.parameters()).device
    written: list[list[int]] = [[] for _ in prompts]
    rows = list(range(len(prompts)))  # which prompt each row of the batch is
    tokens = torch.tensor([[prompt[0]] for prompt in prompts], device=device)
    with inference(model):
        cache = model.new_cache() if use_cache else None
        for length in range(1, limit):
            if not rows:
                break
            newest = tokens if cache is None else tokens[:, -1:]
            logits = model.decode(newest, cache=cache)[:, -1]  # (rows, vocab)
            logits[:, config.pad_id] = float("-inf")
            probabilities = next_probabilities(logits, temperature, top_k, top_p)
            drawn = probabilities.multinomial(1, generator=generator)[:, 0]  # (rows)
            going_on = []
            for place, (row, token) in enumerate(
                zip(rows, drawn.tolist(), strict=True)
            ):
                if length < len(prompts[row]):
                    drawn[place] = prompts[row][length]
                elif token == config.eos_id:
                    continue
                else:
                    written[row].append(token)
                going_on.append(place)
            tokens = torch.cat([tokens, drawn[:, None]], dim=1)  # (rows, length + 1)
            if 0 < len(going_on) < len(rows):
                kept = torch.tensor(going_on, device=device)
                tokens = tokens[kept]
                if cache is not None:
                    cache.select(kept)
            rows = [rows[place] for place in going_on]
    return written


def _require_prompts(
    model: DecoderAlone, prompts: Sequence[Sequence[int]], limit: int
) -> None:
    """Refuse what cannot be continued."""
    config = model.config
    if config.src_vocab_size is not None:
        raise ValueError(
            "the model must have no source to write on, "
            f"got src_vocab_size {config.src_vocab_size}"
        )
    require_between(1, config.max_len, max_len=limit)
    for number, prompt in enumerate(prompts):
        if not 0 < len(prompt) <= limit:
            raise ValueError(
                f"prompt {number} must have 1 to {limit} tokens, got {len(prompt)}"
            )
        if config.pad_id in prompt:
            raise ValueError(f"prompt {number} must not hold PAD, got {config.pad_id}")
