"""``mx.contrib.amp.lists.symbol_fp16``: the operators that run in float16, in float32, or in either."""

from __future__ import annotations

from hybridc.contrib.amp.lists.names import CONDITIONAL, LOSSES, WIDEST, known, remaining

FP16_FUNCS = ["Convolution", "Deconvolution", "FullyConnected", "RNN"]
# COMPAT(mxnet): ModulatedDeformableConvolution is in no list there and fails, as its offsets are results of a
# convolution in float16.
FP32_FUNCS = known("""
    _contrib_ModulatedDeformableConvolution
    arccos arcsin cosh erfinv sinh tan arctanh exp expm1 log log10 log2 log1p broadcast_power square reciprocal rsqrt
    rcbrt _Power _power _hypot broadcast_hypot _square_sum _contrib_hawkesll sum sum_axis nansum prod nanprod mean norm
    softmin khatri_rao moments gamma gammaln _linalg_gelqf _linalg_gemm _linalg_gemm2 _linalg_potrf _linalg_potri
    _linalg_sumlogdiag _linalg_syevd _linalg_syrk _linalg_trmm _linalg_trsm _linalg_makediag _linalg_extractdiag
    _linalg_maketrian _linalg_extracttrian _linalg_inverse _linalg_det _linalg_slogdet linalg_syrk linalg_potrf
    linalg_potri linalg_gemm2 linalg_gemm linalg_gelqf linalg_trmm linalg_trsm linalg_makediag linalg_extractdiag
    linalg_maketrian linalg_extracttrian linalg_inverse linalg_det linalg_slogdet _contrib_count_sketch
    _contrib_SyncBatchNorm _contrib_fft argsort topk SoftmaxOutput softmax Softmax log_softmax InstanceNorm LayerNorm
    GroupNorm L2Normalization LRN SoftmaxActivation LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput
    SVMOutput softmax_cross_entropy smooth_l1 MakeLoss make_loss Custom CTCLoss _contrib_CTCLoss _contrib_ctc_loss
    ctc_loss _contrib_DeformableConvolution _contrib_DeformablePSROIPooling _contrib_MultiBoxDetection
    _contrib_MultiBoxPrior _contrib_MultiBoxTarget IdentityAttachKLSparseReg
""")
CONDITIONAL_FP32_FUNCS = CONDITIONAL
WIDEST_TYPE_CASTS = known(f"{WIDEST} Concat concat broadcast_mul _contrib_interleaved_matmul_encdec_qk "
                          "_contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk "
                          "_contrib_interleaved_matmul_selfatt_valatt")  # fmt: skip
LOSS_OUTPUT_FUNCTIONS = LOSSES
FP16_FP32_FUNCS = remaining(FP16_FUNCS, FP32_FUNCS, WIDEST_TYPE_CASTS, [name for name, *_ in CONDITIONAL])
