"""The same model with less time, less memory, or more than one computer.

``triton_attention`` is not imported here, because it needs the package triton.
"""

from transformer_lib.faster.distillation import (
    soft_label_loss,
    soft_labels,
    teacher_pairs,
)
from transformer_lib.faster.fast_decoder import FastDecoder
from transformer_lib.faster.flash_attention import flash_attention
from transformer_lib.faster.full_training import (
    FullConfig,
    FullEpoch,
    FullRun,
    disagreement,
    full_loss,
    full_step,
    full_train,
)
from transformer_lib.faster.precision import LossScaler, autocast, checkpoint_layers
from transformer_lib.faster.pruning import (
    prune_smallest,
    remove_features,
    remove_heads,
    shrink,
)
from transformer_lib.faster.quantization import (
    QuantizedLinear,
    calibrate,
    quantize,
    quantize_rows,
)

__all__ = [
    "FastDecoder",
    "FullConfig",
    "FullEpoch",
    "FullRun",
    "LossScaler",
    "QuantizedLinear",
    "autocast",
    "calibrate",
    "checkpoint_layers",
    "disagreement",
    "flash_attention",
    "full_loss",
    "full_step",
    "full_train",
    "prune_smallest",
    "quantize",
    "quantize_rows",
    "remove_features",
    "remove_heads",
    "shrink",
    "soft_label_loss",
    "soft_labels",
    "teacher_pairs",
]
