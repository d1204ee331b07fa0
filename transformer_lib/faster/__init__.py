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
from transformer_lib.faster.training_at_scale import (
    ScaleConfig,
    ScaleEpoch,
    ScaleRun,
    disagreement,
    loss_at_scale,
    step_at_scale,
    train_at_scale,
)

__all__ = [
    "FastDecoder",
    "LossScaler",
    "QuantizedLinear",
    "ScaleConfig",
    "ScaleEpoch",
    "ScaleRun",
    "autocast",
    "calibrate",
    "checkpoint_layers",
    "disagreement",
    "flash_attention",
    "loss_at_scale",
    "prune_smallest",
    "quantize",
    "quantize_rows",
    "remove_features",
    "remove_heads",
    "shrink",
    "soft_label_loss",
    "soft_labels",
    "step_at_scale",
    "teacher_pairs",
    "train_at_scale",
]
