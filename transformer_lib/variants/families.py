"""The families of models that a file may hold."""

from transformer_lib.model import Transformer
from transformer_lib.variants.modern.transformer import ModernTransformer
from transformer_lib.variants.one_stack.decoder_alone import DecoderAlone
from transformer_lib.variants.one_stack.encoder_alone import EncoderAlone

FAMILIES = {
    "Transformer": Transformer,
    "ModernTransformer": ModernTransformer,
    "EncoderAlone": EncoderAlone,
    "DecoderAlone": DecoderAlone,
}  # for ``load_model``
