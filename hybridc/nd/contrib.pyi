# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

import math
from typing import Any as Any
from hybridc.array.functions import function as function
from hybridc.context import Context as Context
from hybridc.nd import random as random
from hybridc.nd.control_flow import cond as cond
from hybridc.nd.control_flow import foreach as foreach
from hybridc.nd.control_flow import while_loop as while_loop
from hybridc.nd.namespace import lookup as lookup
from hybridc.nd.random import uniform as uniform
def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int, ctx: Context | None=None) -> tuple[Any, ...]:
    """Classes drawn, with replacement, from a distribution that is about log-uniform, as that of words."""
    ...

def AdaptiveAvgPooling2D(
    data: _A,
    output_size: int | Sequence[int] | None = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The means of parts of images, as many as ``output_size`` says: (height, width), or one number for both"""
    ...

def BatchNormWithReLU(
    data: Fluent,
    gamma: Fluent | None = None,
    beta: Fluent | None = None,
    moving_mean: Fluent | None = None,
    moving_var: Fluent | None = None,
    eps: float = 0.001,
    momentum: float = 0.9,
    fix_gamma: bool | int = True,
    use_global_stats: bool | int = False,
    output_mean_var: bool | int = False,
    axis: int = 1,
    cudnn_off: bool | int = False,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """BatchNorm, and 0 instead of what is negative"""
    ...

def BilinearResize2D(
    data: _A,
    like: _A | None = None,
    height: int = 1,
    width: int = 1,
    scale_height: float | None = None,
    scale_width: float | None = None,
    mode: Literal['like', 'odd_scale', 'size', 'to_even_down', 'to_even_up', 'to_odd_down', 'to_odd_up'] | str = 'size',
    align_corners: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images in another size, interpolated linearly along both axes"""
    ...

def CTCLoss(
    data: Fluent,
    label: Fluent | None = None,
    data_lengths: Fluent | None = None,
    label_lengths: Fluent | None = None,
    use_data_lengths: bool | int = False,
    use_label_lengths: bool | int = False,
    blank_label: Literal['first', 'last'] | str = 'first',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """-log of the probability of all alignments of ``label`` to the steps of ``data``, one number for each sequence"""
    ...

def DeformableConvolution(
    data: _A,
    offset: _A | None = None,
    weight: _A | None = None,
    bias: _A | None = None,
    kernel: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    num_filter: int = ...,
    num_group: int = 1,
    num_deformable_group: int = 1,
    workspace: int = 1024,
    no_bias: bool | int = False,
    layout: Literal['NCHW', 'NCW', 'NCDHW'] | str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A convolution whose taps are moved by offsets, which the data may decide; 0 outside of the image"""
    ...

def DeformablePSROIPooling(
    data: _A,
    rois: _A | None = None,
    trans: _A | None = None,
    spatial_scale: float = ...,
    output_dim: int = ...,
    group_size: int = ...,
    pooled_size: int = ...,
    part_size: int = 0,
    sample_per_part: int = 1,
    trans_std: float = 0.0,
    no_trans: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The average of points of each bin of each region, moved by ``trans``, of channels of the bin's place"""
    ...

def ModulatedDeformableConvolution(
    data: _A,
    offset: _A | None = None,
    mask: _A | None = None,
    weight: _A | None = None,
    bias: _A | None = None,
    kernel: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    num_filter: int = ...,
    num_group: int = 1,
    num_deformable_group: int = 1,
    workspace: int = 1024,
    no_bias: bool | int = False,
    layout: Literal['NCHW', 'NCW', 'NCDHW'] | str | None = None,
    im2col_step: int = 64,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A convolution whose taps are moved by offsets and multiplied by a mask, which the data may decide"""
    ...

def MultiBoxDetection(
    cls_prob: _A,
    loc_pred: _A | None = None,
    anchor: _A | None = None,
    clip: bool | int = True,
    threshold: float = 0.01,
    background_id: int = 0,
    nms_threshold: float = 0.5,
    force_suppress: bool | int = False,
    variances: float | Sequence[float] = ...,
    nms_topk: int = -1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Rows (class, score, left, top, right, bottom) of what was detected, the best first; no gradient flows"""
    ...

def MultiBoxPrior(
    data: _A,
    sizes: float | Sequence[float] = ...,
    ratios: float | Sequence[float] = ...,
    clip: bool | int = False,
    steps: float | Sequence[float] = ...,
    offsets: float | Sequence[float] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Anchor boxes of every pixel of a feature map, as corners in an image of width 1 and height 1"""
    ...

def MultiBoxTarget(
    anchor: Fluent,
    label: Fluent | None = None,
    cls_pred: Fluent | None = None,
    overlap_threshold: float = 0.5,
    ignore_label: float = -1.0,
    negative_mining_ratio: float = -1.0,
    negative_mining_thresh: float = 0.5,
    minimum_negative_samples: int = 0,
    variances: float | Sequence[float] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """What a single-shot detector is to predict for each anchor: offsets, their mask, and classes; no gradient flows"""
    ...

def MultiProposal(
    cls_prob: Fluent,
    bbox_pred: Fluent | None = None,
    im_info: Fluent | None = None,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    threshold: float = 0.7,
    rpn_min_size: int = 16,
    scales: float | Sequence[float] = ...,
    ratios: float | Sequence[float] = ...,
    feature_stride: int = 16,
    output_score: bool | int = False,
    iou_loss: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The best regions of each image: rows (image, left, top, right, bottom), and their scores; no gradient flows"""
    ...

def PSROIPooling(
    data: _A,
    rois: _A | None = None,
    spatial_scale: float = ...,
    output_dim: int = ...,
    pooled_size: int = ...,
    group_size: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The average of each bin of each region, of channels that belong to the bin's place; 0 for an empty bin"""
    ...

def Proposal(
    cls_prob: Fluent,
    bbox_pred: Fluent | None = None,
    im_info: Fluent | None = None,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    threshold: float = 0.7,
    rpn_min_size: int = 16,
    scales: float | Sequence[float] = ...,
    ratios: float | Sequence[float] = ...,
    feature_stride: int = 16,
    output_score: bool | int = False,
    iou_loss: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The best regions of one image: rows (0, left, top, right, bottom), and their scores; no gradient flows"""
    ...

def ROIAlign(
    data: _A,
    rois: _A | None = None,
    pooled_size: int | Sequence[int] = ...,
    spatial_scale: float = ...,
    sample_ratio: int = -1,
    position_sensitive: bool | int = False,
    aligned: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The average of each bin of each region, by bilinear interpolation at points of a grid in the bin"""
    ...

def RROIAlign(
    data: _A,
    rois: _A | None = None,
    pooled_size: int | Sequence[int] = ...,
    spatial_scale: float = ...,
    sampling_ratio: int = -1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The average of each bin of each rotated region, by bilinear interpolation at points of a grid in the bin"""
    ...

def SyncBatchNorm(
    data: Fluent,
    gamma: Fluent | None = None,
    beta: Fluent | None = None,
    moving_mean: Fluent | None = None,
    moving_var: Fluent | None = None,
    eps: float = 0.001,
    momentum: float = 0.9,
    fix_gamma: bool | int = True,
    use_global_stats: bool | int = False,
    output_mean_var: bool | int = False,
    ndev: int = 1,
    key: str = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """BatchNorm along axis 1, with the variance instead of 1 / sqrt(variance + eps) as the third output"""
    ...

def adamw_update(weight: Any, grad: Any, mean: Any, var: Any, rescale_grad: Any, lr: Any, eta: Any, beta1: Any = ..., beta2: Any = ..., epsilon: Any = ..., wd: Any = ..., clip_gradient: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """AdamW's step; nothing changes if ``rescale_grad`` is 0, infinite or NaN."""
    ...

def allclose(
    a: _A,
    b: _A | None = None,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 if all |a - b| <= atol + rtol * |b|, else 0: a scalar of uint8"""
    ...

def arange_like(
    data: _A,
    start: float = 0.0,
    step: float = 1.0,
    repeat: int = 1,
    axis: int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """start, start + step, … in the shape of the input, or as long as one of its axes."""
    ...

def bipartite_matching(
    data: Fluent,
    is_ascend: bool | int = False,
    threshold: float = ...,
    topk: int = -1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The column that each row is matched to, and the row of each column, or -1: the best pairs first"""
    ...

def boolean_mask(
    data: _A,
    index: _A | None = None,
    axis: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The slices of data along ``axis`` for which ``index`` is not 0."""
    ...

def box_decode(
    data: _A,
    anchors: _A | None = None,
    std0: float = 1.0,
    std1: float = 1.0,
    std2: float = 1.0,
    std3: float = 1.0,
    clip: float = -1.0,
    format: Literal['center', 'corner'] | str = 'center',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Corners of the boxes that offsets from anchors stand for: the inverse of ``box_encode``; no gradient flows"""
    ...

def box_encode(
    samples: Fluent,
    matches: Fluent | None = None,
    anchors: Fluent | None = None,
    refs: Fluent | None = None,
    means: Fluent | None = None,
    stds: Fluent | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Offsets of matched boxes from anchors, normalized, and a mask of the positive samples; no gradient flows"""
    ...

def box_iou(
    lhs: _A,
    rhs: _A | None = None,
    format: Literal['center', 'corner'] | str = 'corner',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Intersection over union of each box of ``lhs`` with each of ``rhs``; no gradient flows"""
    ...

def box_nms(
    data: Fluent,
    overlap_thresh: float = 0.5,
    valid_thresh: float = 0.0,
    topk: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = -1,
    background_id: int = -1,
    force_suppress: bool | int = False,
    in_format: Literal['center', 'corner'] | str = 'corner',
    out_format: Literal['center', 'corner'] | str = 'corner',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The boxes that overlap with no box of a higher score, the best first; the other rows are -1"""
    ...

def box_non_maximum_suppression(
    data: Fluent,
    overlap_thresh: float = 0.5,
    valid_thresh: float = 0.0,
    topk: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = -1,
    background_id: int = -1,
    force_suppress: bool | int = False,
    in_format: Literal['center', 'corner'] | str = 'corner',
    out_format: Literal['center', 'corner'] | str = 'corner',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The boxes that overlap with no box of a higher score, the best first; the other rows are -1"""
    ...

def calibrate_entropy(
    hist: Fluent,
    hist_edges: Fluent | None = None,
    num_quantized_bins: int = 255,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The reach for which the integers differ least from a histogram of numbers, and their divergence"""
    ...

def count_sketch(
    data: _A,
    h: _A | None = None,
    s: _A | None = None,
    out_dim: int = ...,
    processing_batch_size: int = 32,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``out[…, h[i]] += data[…, i] * s[i]``: each feature, with its sign, is added to one of ``out_dim`` buckets"""
    ...

def ctc_loss(
    data: Fluent,
    label: Fluent | None = None,
    data_lengths: Fluent | None = None,
    label_lengths: Fluent | None = None,
    use_data_lengths: bool | int = False,
    use_label_lengths: bool | int = False,
    blank_label: Literal['first', 'last'] | str = 'first',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """-log of the probability of all alignments of ``label`` to the steps of ``data``, one number for each sequence"""
    ...

def dequantize(
    data: Fluent,
    min_range: Fluent | None = None,
    max_range: Fluent | None = None,
    out_type: Literal['float32'] | str = 'float32',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The real numbers for which integers stand, ``data * max(|min_range|, |max_range|) / n``"""
    ...

def div_sqrt_dim(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data divided by the square root of the size of its last axis"""
    ...

def fft(
    data: _A,
    compute_size: int = 128,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The discrete Fourier transform of each row, as pairs [real0, imag0, real1, imag1, …]"""
    ...

def gradientmultiplier(
    data: _A,
    scalar: float = 1.0,
    is_int: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of x; the gradient is multiplied by ``scalar``"""
    ...

def group_adagrad_update(
    weight: Fluent,
    grad: Fluent | None = None,
    history: Fluent | None = None,
    lr: float = ...,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    epsilon: float = 1e-05,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """weight - lr * g / sqrt(history + epsilon), where history, a number for each row, is updated in place"""
    ...

def hawkesll(
    lda: Fluent,
    alpha: Fluent | None = None,
    beta: Fluent | None = None,
    state: Fluent | None = None,
    lags: Fluent | None = None,
    marks: Fluent | None = None,
    valid_length: Fluent | None = None,
    max_time: Fluent | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The log likelihoods of sequences of marked points, and the states of the marks at the sequences' ends"""
    ...

def ifft(
    data: _A,
    compute_size: int = 128,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The real part of the sum over the frequencies in each row, given as pairs: the inverse of fft times the length"""
    ...

def index_array(
    data: _A,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of data its own coordinates, along a new last axis, in int64."""
    ...

def index_copy(
    old_tensor: _A,
    index_vector: _A | None = None,
    new_tensor: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """old_tensor with the rows of new_tensor at index_vector; of duplicates, the last."""
    ...

def interleaved_matmul_encdec_qk(
    queries: _A,
    keys_values: _A | None = None,
    heads: int = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Products of a decoder's queries and an encoder's keys, divided by the square root of the size of a head"""
    ...

def interleaved_matmul_encdec_valatt(
    keys_values: _A,
    attention: _A | None = None,
    heads: int = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The values of an encoder, weighted by a decoder's attention"""
    ...

def interleaved_matmul_selfatt_qk(
    queries_keys_values: _A,
    heads: int,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Products of the queries and the keys of self-attention, divided by the square root of the size of a head"""
    ...

def interleaved_matmul_selfatt_valatt(
    queries_keys_values: _A,
    attention: _A | None = None,
    heads: int = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The values of self-attention, weighted by the attention"""
    ...

def isfinite(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where x is neither infinite nor nan, else 0"""
    ...

def isinf(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where x is infinite, else 0"""
    ...

def isnan(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where x is not a number, else 0"""
    ...

def mp_adamw_update(weight: Any, grad: Any, mean: Any, var: Any, weight32: Any, rescale_grad: Any, lr: Any, eta: Any, beta1: Any = ..., beta2: Any = ..., epsilon: Any = ..., wd: Any = ..., clip_gradient: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """AdamW's step, of a float32 copy; nothing changes if ``rescale_grad`` is 0, infinite or NaN."""
    ...

def multi_adamw_update(weights: Any, grads: Any, mean: Any, var: Any, rescale_grad: Any, lrs: Any, wds: Any, etas: Any, out: Any = ..., name: Any = ..., size: Any = ..., **kwargs: Any) -> Any:
    """AdamW's step of several weights; nothing changes if ``rescale_grad`` is 0, infinite or NaN."""
    ...

def multi_lamb_update(weights: Any, grads: Any, mean: Any, var: Any, step_count: Any, lrs: Any, wds: Any, out: Any = ..., num_tensors: Any = ..., **kwargs: Any) -> Any:
    """LAMB's step of several weights."""
    ...

def multi_mp_adamw_update(weights: Any, grads: Any, mean: Any, var: Any, weights32: Any, rescale_grad: Any, lrs: Any, wds: Any, etas: Any, out: Any = ..., name: Any = ..., size: Any = ..., **kwargs: Any) -> Any:
    """AdamW's step of several weights, of float32 copies; nothing changes if ``rescale_grad`` is 0, infinite or NaN."""
    ...

def multi_mp_lamb_update(weights: Any, grads: Any, mean: Any, var: Any, weights32: Any, step_count: Any, lrs: Any, wds: Any, out: Any = ..., num_tensors: Any = ..., **kwargs: Any) -> Any:
    """LAMB's step of several weights, of float32 copies."""
    ...

def quadratic(
    data: _A,
    a: float = 0.0,
    b: float = 0.0,
    c: float = 0.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """a * x**2 + b * x + c"""
    ...

def quantize(
    data: Fluent,
    min_range: Fluent | None = None,
    max_range: Fluent | None = None,
    out_type: Literal['int8', 'uint8'] | str = 'uint8',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Real numbers as integers, for a range that is given; the range of the integers follows"""
    ...

def quantize_asym(
    data: Fluent,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Real numbers as integers from 0 to 255 that span the range, ``data * scale + shift``, and scale and shift"""
    ...

def quantize_v2(
    data: Fluent,
    out_type: Literal['auto', 'int8', 'uint8'] | str = 'int8',
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Real numbers as integers, for the range of calibration, or else that of the numbers; integers stay as they are"""
    ...

def quantized_Concat(
    *data: Fluent,
    num_args: int = 0,
    dim: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Integers one after the other along an axis, in the widest range; signed if some are"""
    ...

def quantized_act(
    data: Fluent,
    min_data: Fluent | None = None,
    max_data: Fluent | None = None,
    act_type: Literal['relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'] | str = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """max(q, 0) of integers"""
    ...

def quantized_batch_norm(
    data: Fluent,
    gamma: Fluent | None = None,
    beta: Fluent | None = None,
    moving_mean: Fluent | None = None,
    moving_var: Fluent | None = None,
    min_data: Fluent | None = None,
    max_data: Fluent | None = None,
    eps: float = 0.001,
    momentum: float = 0.9,
    fix_gamma: bool | int = True,
    use_global_stats: bool | int = False,
    output_mean_var: bool | int = False,
    axis: int = 1,
    cudnn_off: bool | int = False,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Batch normalization of integers with running statistics, as signed integers in the range of calibration"""
    ...

def quantized_concat(
    *data: Fluent,
    num_args: int = 0,
    dim: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Integers one after the other along an axis, in the widest range; signed if some are"""
    ...

def quantized_conv(
    data: Fluent,
    weight: Fluent | None = None,
    bias: Fluent | None = None,
    min_data: Fluent | None = None,
    max_data: Fluent | None = None,
    min_weight: Fluent | None = None,
    max_weight: Fluent | None = None,
    min_bias: Fluent | None = None,
    max_bias: Fluent | None = None,
    kernel: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    num_filter: int = ...,
    num_group: int = 1,
    workspace: int = 1024,
    no_bias: bool | int = False,
    cudnn_tune: str | None = None,
    cudnn_off: bool | int = False,
    layout: str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The convolution of integers of 8 bits, as integers of 32 and their range"""
    ...

def quantized_elemwise_add(
    lhs: Fluent,
    rhs: Fluent | None = None,
    lhs_min: Fluent | None = None,
    lhs_max: Fluent | None = None,
    rhs_min: Fluent | None = None,
    rhs_max: Fluent | None = None,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """lhs + rhs of integers: of 8 bits for a range that is known, else of 32"""
    ...

def quantized_elemwise_mul(
    lhs: Fluent,
    rhs: Fluent | None = None,
    lhs_min: Fluent | None = None,
    lhs_max: Fluent | None = None,
    rhs_min: Fluent | None = None,
    rhs_max: Fluent | None = None,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    enable_float_output: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """lhs * rhs of integers: of 8 bits for a range that is known, else of 32; or the real numbers"""
    ...

def quantized_embedding(
    data: Fluent,
    weight: Fluent | None = None,
    min_weight: Fluent | None = None,
    max_weight: Fluent | None = None,
    input_dim: int = ...,
    output_dim: int = ...,
    dtype: DTypeLike = 'float32',
    sparse_grad: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Rows of a matrix of integers, by their indices"""
    ...

def quantized_flatten(
    data: Fluent,
    min_data: Fluent | None = None,
    max_data: Fluent | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """All axes but the first as one"""
    ...

def quantized_fully_connected(
    data: Fluent,
    weight: Fluent | None = None,
    bias: Fluent | None = None,
    min_data: Fluent | None = None,
    max_data: Fluent | None = None,
    min_weight: Fluent | None = None,
    max_weight: Fluent | None = None,
    min_bias: Fluent | None = None,
    max_bias: Fluent | None = None,
    num_hidden: int = ...,
    no_bias: bool | int = False,
    flatten: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """data @ weight.T + bias on integers of 8 bits, as integers of 32 and their range"""
    ...

def quantized_pooling(
    data: Fluent,
    min_data: Fluent | None = None,
    max_data: Fluent | None = None,
    kernel: int | Sequence[int] = (),
    pool_type: Literal['avg', 'lp', 'max', 'sum'] | str = 'max',
    global_pool: bool | int = False,
    cudnn_off: bool | int = False,
    pooling_convention: Literal['full', 'same', 'valid'] | str = 'valid',
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    p_value: int | None = None,
    count_include_pad: bool | int | None = None,
    layout: str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The greatest, or the mean, of integers in windows; means are rounded"""
    ...

def requantize(
    data: Fluent,
    min_range: Fluent | None = None,
    max_range: Fluent | None = None,
    out_type: Literal['auto', 'int8', 'uint8'] | str = 'int8',
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Integers of 32 bits as integers of 8, for the range of calibration, or else that of the numbers"""
    ...

def round_ste(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The whole number nearest to x; the gradient passes straight through"""
    ...

def sign_ste(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sign of x; the gradient passes straight through"""
    ...
