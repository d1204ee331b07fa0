"""Give a model that was just built the pieces of other families that its config asks.

The chapters build the model of the paper. What a config chooses besides is put in the
place of its pieces here, before the weights get their starting values.
"""

from collections.abc import Iterator

from torch import nn

from transformer_lib.variants.gated import GatedFeedForward
from transformer_lib.variants.norm import RMSNorm

NORMS = ("layer", "rms")


def fit_choices(model: nn.Module) -> None:
    """Replace the pieces of which the config wants another kind.

    Args:
        model: With a ``config``, and an ``encoder``, a ``decoder`` or both. With the
            paper's choices it stays as it is.

    Raises:
        ValueError: As the pieces do.
    """
    config = model.config
    for stack in stacks(model):
        if config.norm == "rms" and stack.norm is not None:
            stack.norm = RMSNorm(config.d_model, eps=config.norm_eps)
        for layer in stack.layers:
            if config.norm == "rms":
                for name, part in layer.named_children():
                    if name.endswith("_residual"):
                        part.norm = RMSNorm(config.d_model, eps=config.norm_eps)
            if config.gated:
                layer.feed_forward = GatedFeedForward(
                    config.d_model,
                    config.d_ff,
                    dropout=config.feed_forward_dropout,
                    activation=config.activation,
                )


def stacks(model: nn.Module) -> Iterator[nn.Module]:
    """Give the model's encoder and decoder, as far as it has them."""
    for name in ("encoder", "decoder"):
        stack = getattr(model, name, None)
        if stack is not None:
            yield stack
