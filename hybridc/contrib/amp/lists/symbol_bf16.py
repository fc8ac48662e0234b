"""``mx.contrib.amp.lists.symbol_bf16``: the operators that run in bfloat16, in float32, or in either."""

from __future__ import annotations

from hybridc.contrib.amp.lists.names import CONDITIONAL, LOSSES, WIDEST, known, remaining

BF16_FUNCS = ["Convolution", "FullyConnected"]
BF16_FP32_FUNCS = known("""
    abs BatchNorm BatchNormWithReLU clip Concat concat LRN Pooling relu shuffle _shuffle sqrt square tanh
""")
# Which inputs stay in float32 though the operator runs in bfloat16.
_STATISTICS = ["", "gamma", "beta", "moving_mean", "moving_var"]
BF16_USE_FP32_PARAMS = {"BatchNormWithReLU": _STATISTICS, "BatchNorm": _STATISTICS}
CONDITIONAL_FP32_FUNCS = CONDITIONAL
WIDEST_TYPE_CASTS = known(f"{WIDEST} _contrib_MultiBoxDetection _contrib_MultiBoxPrior _contrib_MultiBoxTarget")
LOSS_OUTPUT_FUNCTIONS = LOSSES
FP32_FUNCS = remaining(BF16_FUNCS, BF16_FP32_FUNCS, WIDEST_TYPE_CASTS, [name for name, *_ in CONDITIONAL])
