"""Pruning: weights set to zero, and heads and features taken out for good."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict

import torch
from torch import Tensor, nn

from transformer_lib.checks import require_between, require_probability
from transformer_lib.data import Batch
from transformer_lib.model import FeedForward, MultiHeadAttention, Transformer
from transformer_lib.training import evaluate, load_weights
from transformer_lib.variants import (
    GroupedAttention,
    ModernConfig,
    ModernParts,
    ModernTransformer,
)


def matrices(model: Transformer) -> list[Tensor]:
    """List the weights of the linear layers, without the table and the output."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [layer.weight for layer in layers if layer is not model.output]


@torch.no_grad()
def prune_smallest(model: Transformer, share: float) -> float:
    """Set the smallest weights of all matrices together to zero, whatever their sign.

    Biases, norms, embeddings and the output stay. The matrices keep their shapes.

    Args:
        model: Changed in place.
        share: How many of the weights become zero, in [0, 1). Of equal weights at the
            limit, the first go.

    Returns:
        The largest magnitude that became zero; 0 where none did.

    Raises:
        ValueError: If ``share`` is outside [0, 1).

    Source: Han et al. (2015), section 3; for translation See et al. (2016), section 3.
    """
    require_probability(share=share)
    magnitudes = torch.cat([weight.abs().flatten() for weight in matrices(model)])
    count = round(share * len(magnitudes))
    if count == 0:
        return 0.0
    limit = magnitudes.kthvalue(count).values
    gone = magnitudes < limit
    gone[(magnitudes == limit).nonzero()[: count - int(gone.sum())]] = True
    sizes = [weight.numel() for weight in matrices(model)]
    for weight, part in zip(matrices(model), gone.split(sizes), strict=True):
        weight[part.view_as(weight)] = 0.0
    return limit.item()


def losses_without_heads(
    model: Transformer, batches: Sequence[Batch]
) -> dict[str, list[float]]:
    """Measure the loss of a model that does without one head, for each of its heads.

    Args:
        model: Left as it was.
        batches: Sentences to measure on: not those that will judge the pruned model.

    Returns:
        For each attention layer, by name, a loss per token for each head, in nats.

    Source: Michel et al. (2019), section 3.2.
    """
    found = {}
    for name, attention in model.named_modules():
        if isinstance(attention, MultiHeadAttention):
            found[name] = []
            weight = attention.w_o.weight.data
            for head in range(attention.num_heads):
                kept = weight.clone()
                try:
                    weight[:, features_of(attention, [head])] = 0.0
                    found[name].append(evaluate(model, batches)[0])
                finally:  # even if you interrupt the measurement
                    weight.copy_(kept)
    return found


def feature_sizes(model: Transformer, batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Measure how much each inner feature of a feed-forward network adds.

    That is the feature's magnitude, summed over all positions (padding, too), times the
    length of its column in ``w_2``.

    Args:
        model: Left as it was.
        batches: Sentences to measure on: not those that will judge the pruned model.

    Returns:
        For each feed-forward network, by name, a size for each feature, shape (d_ff).
    """
    found, hooks = {}, []
    for name, layer in model.named_modules():
        if isinstance(layer, FeedForward):
            found[name] = torch.zeros_like(layer.w_1.weight[:, 0])  # (d_ff)

            def add(w_2: nn.Linear, inputs: tuple[Tensor], total=found[name]) -> None:
                reach = inputs[0].abs() * w_2.weight.norm(dim=0)  # (B, T, d_ff)
                total += reach.sum(dim=(0, 1))

            hooks.append(layer.w_2.register_forward_pre_hook(add))
    try:
        evaluate(model, batches)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def features_of(attention: MultiHeadAttention, heads: Sequence[int]) -> Tensor:
    """Number the features of some heads: they are columns of ``w_o``.

    Args:
        attention: Its heads lie side by side, d_k features each.
        heads: Their numbers.

    Returns:
        Shape (len(heads) * d_k).

    Raises:
        IndexError: If there is no such head.
    """
    features = torch.arange(attention.w_o.in_features)
    by_head = features.unflatten(0, (attention.num_heads, -1))  # (H, d_k)
    return by_head[list(heads)].flatten()


@torch.no_grad()
def remove_heads(attention: MultiHeadAttention, heads: Sequence[int]) -> None:
    """Take heads out for good: rows of ``w_q w_k w_v``, columns of ``w_o``.

    Args:
        attention: Changed in place. It gives what it gave when their columns of ``w_o``
            were zero. The heads that stay are numbered anew, in order.
        heads: Their numbers; at least one other must stay. Without any, nothing
            changes.

    Raises:
        ValueError: If none would stay, heads share their keys, or what is attended with
            tells the positions by head, as ALiBi does.
        IndexError: If there is no such head.
    """
    if not heads:
        return
    if getattr(attention.attend, "places", False):
        raise ValueError(
            "attention must not have its positions in its heads to remove some, "
            f"got {attention.attend}"
        )
    if attention.w_k.out_features != attention.w_q.out_features:
        raise ValueError(
            "w_k must be as wide as w_q to remove heads, "
            f"got {attention.w_k.out_features} and {attention.w_q.out_features}"
        )
    d_k = attention.w_o.in_features // attention.num_heads
    kept = others(attention.w_o.in_features, features_of(attention, heads))
    for layer in (attention.w_q, attention.w_k, attention.w_v):
        keep_rows(layer, kept)
    keep_columns(attention.w_o, kept)
    attention.num_heads = len(kept) // d_k
    if isinstance(attention, GroupedAttention):  # in groups of one
        attention.num_key_heads = attention.num_heads


@torch.no_grad()
def remove_features(feed_forward: FeedForward, features: Tensor) -> None:
    """Take inner features out for good: rows of ``w_1``, columns of ``w_2``.

    Args:
        feed_forward: Changed in place. It gives what it gave when their columns of
            ``w_2`` were zero. The features that stay are numbered anew, in order.
        features: Their numbers; at least one other must stay.

    Raises:
        ValueError: If none would stay.
        IndexError: If there is no such feature.
    """
    kept = others(feed_forward.w_1.out_features, features)
    keep_rows(feed_forward.w_1, kept)
    keep_columns(feed_forward.w_2, kept)


def others(count: int, gone: Tensor) -> Tensor:
    """Number what stays of ``count`` features; refuse if that is nothing.

    Raises:
        ValueError: If all are gone.
        IndexError: If one is gone that never was.
    """
    stays = torch.ones(count, dtype=torch.bool, device=gone.device)
    stays[gone] = False
    if not stays.any():
        raise ValueError(f"at least 1 of {count} features must stay, got 0")
    return stays.nonzero().flatten()


def keep_rows(layer: nn.Linear, rows: Tensor) -> None:
    """Let a layer have these outputs alone."""
    layer.weight = nn.Parameter(layer.weight[rows], layer.weight.requires_grad)
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias[rows], layer.bias.requires_grad)
    layer.out_features = len(rows)


def keep_columns(layer: nn.Linear, columns: Tensor) -> None:
    """Let a layer have these inputs alone."""
    layer.weight = nn.Parameter(layer.weight[:, columns], layer.weight.requires_grad)
    layer.in_features = len(columns)


def shrink(
    model: Transformer, num_heads: int, d_ff: int, batches: Sequence[Batch]
) -> Transformer:
    """Make a smaller model: in every layer only the best heads and features stay.

    The same number stays everywhere, so that a ``ModernConfig`` can say it.

    Args:
        model: Left as it was.
        num_heads: Heads that stay in each attention layer, d_k as wide as before.
        d_ff: Inner features that stay in each feed-forward network.
        batches: Sentences to rank by: not those that will judge the smaller model.

    Returns:
        A model of its own, in evaluation mode.

    Raises:
        ValueError: If more shall stay than there are, or none, or the model has layers
            of a kind that is not known here.
    """
    config = model.config
    require_between(1, config.num_heads, num_heads=num_heads)
    require_between(1, config.d_ff, d_ff=d_ff)
    d_k = getattr(config, "d_k", None) or config.d_model // config.num_heads
    smaller = deepcopy(model)
    for name, losses in losses_without_heads(model, batches).items():
        gone = torch.tensor(losses).argsort()[: config.num_heads - num_heads]
        remove_heads(smaller.get_submodule(name), gone.tolist())
    for name, sizes in feature_sizes(model, batches).items():
        gone = sizes.argsort()[: config.d_ff - d_ff]
        remove_features(smaller.get_submodule(name), gone)
    choices = asdict(config) | {"num_heads": num_heads, "d_k": d_k, "d_ff": d_ff}
    if choices.get("num_key_heads") == config.num_heads:  # in groups of one
        choices["num_key_heads"] = num_heads
    family = type(model) if isinstance(model, ModernParts) else ModernTransformer
    described = family(ModernConfig(**choices))
    weights = dict(smaller.named_parameters())
    load_weights(described, weights, source="the smaller model")
    return described.eval()
