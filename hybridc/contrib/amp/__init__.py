"""``mx.contrib.amp``: automatic mixed precision, with float16 or bfloat16.

``amp.init()`` before the network is made; ``amp.init_trainer(trainer)``; then in the loop ``with amp.scale_loss(loss,
trainer) as scaled: scaled.backward()``. A converted symbol or block is for prediction.
"""

from __future__ import annotations

from hybridc.contrib.amp import amp, lists, loss_scaler
from hybridc.contrib.amp.amp import (
    convert_bucketing_module,
    convert_hybrid_block,
    convert_model,
    convert_symbol,
    init,
    init_trainer,
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_loss_output_functions,
    list_lp16_fp32_ops,
    list_lp16_ops,
    list_lp16_use_fp32_params,
    list_widest_type_cast,
    scale_loss,
    unscale,
)

__all__ = [
    "amp",
    "convert_bucketing_module",
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "lists",
    "loss_scaler",
    "scale_loss",
    "unscale",
]
