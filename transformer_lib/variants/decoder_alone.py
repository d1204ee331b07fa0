"""A decoder alone writes on from what it is given, as GPT does."""

from collections.abc import Sequence

import torch

from transformer_lib.checks import require_positive
from transformer_lib.decoding import inference, next_probabilities
from transformer_lib.model import Transformer


def continue_tokens(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    eos_id: int,
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
        eos_id: The id that ends a text.
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
                elif token == eos_id:
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
    model: Transformer, prompts: Sequence[Sequence[int]], limit: int
) -> None:
    """Refuse what cannot be continued."""
    config = model.config
    if config.src_vocab_size is not None:
        raise ValueError(
            "the model must have no source to write on, "
            f"got src_vocab_size {config.src_vocab_size}"
        )
    require_positive(max_len=limit)
    if limit > config.max_len:
        raise ValueError(
            f"max_len must be at most the model's, got {limit} and {config.max_len}"
        )
    for number, prompt in enumerate(prompts):
        if not 0 < len(prompt) <= limit:
            raise ValueError(
                f"prompt {number} must have 1 to {limit} tokens, got {len(prompt)}"
            )
        if config.pad_id in prompt:
            raise ValueError(f"prompt {number} must not hold PAD, got {config.pad_id}")
