"""Which model a config describes."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from transformer_lib.model import LAYOUTS, Transformer, TransformerConfig
from transformer_lib.variants.modern.transformer import ModernConfig, ModernTransformer
from transformer_lib.variants.one_stack.decoder_alone import DecoderAlone
from transformer_lib.variants.one_stack.encoder_alone import EncoderAlone


def plainest(config: ModernConfig) -> TransformerConfig:
    """Describe the same model without the choices made since 2017, if it has none.

    Args:
        config: Any choices.

    Returns:
        A ``TransformerConfig`` if that can say it, otherwise the same config.
    """
    known = {field.name for field in fields(TransformerConfig)}
    choices = {name: x for name, x in asdict(config).items() if name in known}
    is_whole = None not in (config.src_vocab_size, config.tgt_vocab_size)
    if is_whole and config.positions in LAYOUTS and config == ModernConfig(**choices):
        return TransformerConfig(**choices)
    return config


def build_model(
    config: TransformerConfig,
) -> Transformer | EncoderAlone | DecoderAlone:
    """Make the model that a config describes: both halves, or one of them.

    Args:
        config: A ``ModernConfig`` without ``src_vocab_size`` describes a decoder alone,
            without ``tgt_vocab_size`` an encoder alone.

    Raises:
        ValueError: As the models do.
    """
    if not isinstance(config, ModernConfig):
        return Transformer(config)
    if config.src_vocab_size is None:
        return DecoderAlone(config)
    if config.tgt_vocab_size is None:
        return EncoderAlone(config)
    return ModernTransformer(config)


def build_from(
    choices: Mapping[str, Any],
) -> Transformer | EncoderAlone | DecoderAlone:
    """Make a model of any family from the fields of its config, as files keep them.

    Args:
        choices: Fields of ``ModernConfig``, by name.

    Raises:
        TypeError: If there is no such field.
        ValueError: As the models do.
    """
    return build_model(plainest(ModernConfig(**choices)))
