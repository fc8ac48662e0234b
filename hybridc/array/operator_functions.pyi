# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.array.ndarray import NDArray
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

def Activation(
    data: _A,
    act_type: Literal['relu', 'sigmoid', 'tanh', 'softrelu', 'softsign', 'log_sigmoid', 'silu', 'gelu'] | str,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The activation function that ``act_type`` names"""
    ...

def BatchNorm(
    data: _A,
    gamma: _A | None = None,
    beta: _A | None = None,
    moving_mean: _A | None = None,
    moving_var: _A | None = None,
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
) -> _A:
    """(data - mean) / sqrt(variance + eps) * gamma + beta, for each channel: each index of ``axis``"""
    ...

def BatchNorm_v1(
    data: _A,
    gamma: _A | None = None,
    beta: _A | None = None,
    moving_mean: _A | None = None,
    moving_var: _A | None = None,
    eps: float = 0.001,
    momentum: float = 0.9,
    fix_gamma: bool | int = True,
    use_global_stats: bool | int = False,
    output_mean_var: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """BatchNorm along axis 1, with the variance instead of 1 / sqrt(variance + eps) as the third output: an old form"""
    ...

def BilinearSampler(
    data: _A,
    grid: _A | None = None,
    cudnn_off: bool | int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data at the positions of a grid, by bilinear interpolation; 0 outside of the image"""
    ...

def BlockGrad(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of x through which no gradient flows back"""
    ...

def CTCLoss(
    data: _A,
    label: _A | None = None,
    data_lengths: _A | None = None,
    label_lengths: _A | None = None,
    use_data_lengths: bool | int = False,
    use_label_lengths: bool | int = False,
    blank_label: Literal['first', 'last'] | str = 'first',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """-log of the probability of all alignments of ``label`` to the steps of ``data``, one number for each sequence"""
    ...

def Cast(
    data: _A,
    dtype: DTypeLike,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x in another dtype; floats are cut towards zero on their way to integers"""
    ...

def Concat(
    *data: _A,
    dim: int = 1,
    num_args: int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inputs one after the other along an axis."""
    ...

def Convolution(
    data: _A,
    weight: _A | None = None,
    bias: _A | None = None,
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
) -> _A:
    """The sums of products of a kernel's elements with those of the data under it, at each place, for each filter"""
    ...

def Correlation(
    data1: _A,
    data2: _A | None = None,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    pad_size: int = 0,
    is_multiply: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """How alike the surroundings of a place in ``data1`` are to those of displaced places in ``data2``"""
    ...

def Crop(
    *data: _A,
    offset: int | Sequence[int] = ...,
    h_w: int | Sequence[int] = ...,
    num_args: int | None = None,
    center_crop: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A part of the rows and columns of images ``(N, C, H, W)``; its size is ``h_w``, or that of a second input"""
    ...

def Custom(*data: Any, op_type: Any = ..., name: Any = ..., out: Any = ..., **kwargs: Any) -> Any:
    """Apply a custom operator that was registered in Python."""
    ...

def Deconvolution(
    data: _A,
    weight: _A | None = None,
    bias: _A | None = None,
    kernel: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    adj: int | Sequence[int] = (),
    target_shape: int | Sequence[int] = (),
    num_filter: int = ...,
    num_group: int = 1,
    workspace: int = 512,
    no_bias: bool | int = True,
    cudnn_tune: str | None = None,
    cudnn_off: bool | int = False,
    layout: str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The transpose of a convolution: each element of the data adds its multiple of the kernel to the result"""
    ...

def Dropout(
    data: _A,
    p: float = 0.5,
    mode: Literal['always', 'training'] | str = 'training',
    axes: int | Sequence[int] = (),
    cudnn_off: bool | int | None = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """In training, elements are set to 0 with probability p and the others divided by 1 - p; else a copy"""
    ...

def ElementWiseSum(
    *args: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of all inputs, which have one shape"""
    ...

def Embedding(
    data: _A,
    weight: _A | None = None,
    input_dim: int = ...,
    output_dim: int = ...,
    dtype: DTypeLike = 'float32',
    sparse_grad: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``weight[data]``: the row of the table for each integer; integers out of range are clipped."""
    ...

def Flatten(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """All axes but the first merged into one: ``(n, a, b)`` becomes ``(n, a * b)``."""
    ...

def FullyConnected(
    data: _A,
    weight: _A | None = None,
    bias: _A | None = None,
    num_hidden: int = ...,
    no_bias: bool | int = False,
    flatten: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data @ weight.T + bias, with the data flattened to rows"""
    ...

def GridGenerator(
    data: _A,
    transform_type: Literal['affine', 'warp'] | str,
    target_shape: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The positions that a sampler reads at: those of an affine map, or each pixel's moved by a flow"""
    ...

def GroupNorm(
    data: _A,
    gamma: _A | None = None,
    beta: _A | None = None,
    num_groups: int = 1,
    eps: float = 1e-05,
    output_mean_var: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(data - mean) / sqrt(variance + eps) * gamma + beta, for each example and group of channels alone"""
    ...

def IdentityAttachKLSparseReg(
    data: _A,
    moving_avg: _A | None = None,
    sparseness_target: float = 0.1,
    penalty: float = 0.001,
    momentum: float = 0.9,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of data, results of a sigmoid, whose gradient pulls each unit's mean towards ``sparseness_target``"""
    ...

def InstanceNorm(
    data: _A,
    gamma: _A | None = None,
    beta: _A | None = None,
    eps: float = 0.001,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(data - mean) / sqrt(variance + eps) * gamma + beta, for each example and channel alone"""
    ...

def L2Normalization(
    data: _A,
    eps: float = 1e-10,
    mode: Literal['channel', 'instance', 'spatial'] | str = 'instance',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data / sqrt(sum of squares + eps)"""
    ...

def LRN(
    data: _A,
    alpha: float = 0.0001,
    beta: float = 0.75,
    knorm: float = 2.0,
    nsize: int = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data / (knorm + alpha / nsize * sum of squares of nsize neighbouring channels) ** beta, along axis 1"""
    ...

def LayerNorm(
    data: _A,
    gamma: _A | None = None,
    beta: _A | None = None,
    axis: int = -1,
    eps: float = 1e-05,
    output_mean_var: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(data - mean) / sqrt(variance + eps) * gamma + beta, with mean and variance along one axis"""
    ...

def LeakyReLU(
    data: _A,
    gamma: _A | None = None,
    act_type: Literal['elu', 'gelu', 'leaky', 'prelu', 'rrelu', 'selu'] | str = 'leaky',
    slope: float = 0.25,
    lower_bound: float = 0.125,
    upper_bound: float = 0.334,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """One of the functions that are the identity for positive x, by ``act_type``"""
    ...

def LinearRegressionOutput(
    data: _A,
    label: _A | None = None,
    grad_scale: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of data; its gradient is that of half the squared difference to the label"""
    ...

def LogisticRegressionOutput(
    data: _A,
    label: _A | None = None,
    grad_scale: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """sigmoid(data); its gradient is that of the cross entropy with the label"""
    ...

def MAERegressionOutput(
    data: _A,
    label: _A | None = None,
    grad_scale: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of data; its gradient is that of the absolute difference to the label"""
    ...

def MakeLoss(
    data: _A,
    grad_scale: float = 1.0,
    valid_thresh: float = 0.0,
    normalization: Literal['batch', 'null', 'valid'] | str = 'null',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of data that is a loss: its gradient is ``grad_scale``, whatever the gradient of the output"""
    ...

def Pad(
    data: _A,
    mode: Literal['constant', 'edge', 'reflect'] | str,
    pad_width: int | Sequence[int],
    constant_value: float = 0.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The array with a border: a constant, the edge's values, or a reflection about the edge."""
    ...

def Pooling(
    data: _A,
    kernel: int | Sequence[int] = (),
    pool_type: Literal['avg', 'lp', 'max', 'sum'] | str = 'max',
    global_pool: bool | int = False,
    cudnn_off: bool | int = False,
    pooling_convention: Literal['full', 'same', 'valid'] | str = 'valid',
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    p_value: int | None = None,
    count_include_pad: bool | int | None = None,
    layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC'] | str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The maximum, mean, sum or norm of the elements of each window of an image"""
    ...

def Pooling_v1(
    data: _A,
    kernel: int | Sequence[int] = (),
    pool_type: Literal['avg', 'lp', 'max', 'sum'] | str = 'max',
    global_pool: bool | int = False,
    pooling_convention: Literal['full', 'same', 'valid'] | str = 'valid',
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """As Pooling, an older version: a mean is always the sum divided by the number of elements of a whole window"""
    ...

def RNN(
    data: _A,
    parameters: _A | None = None,
    state: _A | None = None,
    state_cell: _A | None = None,
    sequence_length: _A | None = None,
    state_size: int = ...,
    num_layers: int = ...,
    bidirectional: bool | int = False,
    mode: Literal['rnn_relu', 'rnn_tanh', 'lstm', 'gru'] | str = ...,
    p: float = 0.0,
    state_outputs: bool | int = False,
    projection_size: int | None = None,
    lstm_state_clip_min: float | None = None,
    lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool | int = False,
    use_sequence_length: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Layers of an Elman network (``rnn_relu``, ``rnn_tanh``), of LSTM or GRU, over sequences"""
    ...

def ROIPooling(
    data: Fluent,
    rois: Fluent | None = None,
    pooled_size: int | Sequence[int] = ...,
    spatial_scale: float = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The largest element of each bin of each region; 0 for a bin outside of the feature map, or of the image -1"""
    ...

def Reshape(
    data: _A,
    shape: int | Sequence[int] = (),
    reverse: bool | int = False,
    target_shape: int | Sequence[int] = (),
    keep_highest: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The same elements, in row-major order, in another shape."""
    ...

def SVMOutput(
    data: _A,
    label: _A | None = None,
    margin: float = 1.0,
    regularization_coefficient: float = 1.0,
    use_linear: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of data; its gradient is that of a support vector machine's loss, one class against others"""
    ...

def SequenceLast(
    data: _A,
    sequence_length: _A | None = None,
    use_sequence_length: bool | int = False,
    axis: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The last step of each sequence; a length that is not from 1 to the number of steps is an error"""
    ...

def SequenceMask(
    data: _A,
    sequence_length: _A | None = None,
    use_sequence_length: bool | int = False,
    value: float = 0.0,
    axis: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data, with ``value`` in the steps after the end of each sequence; a length that is nan is 0"""
    ...

def SequenceReverse(
    data: _A,
    sequence_length: _A | None = None,
    use_sequence_length: bool | int = False,
    axis: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The steps of each sequence in reverse order; those after its end stay where they are"""
    ...

def SliceChannel(
    data: _A,
    num_outputs: int,
    axis: int = 1,
    squeeze_axis: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """``num_outputs`` equal pieces along an axis; with ``squeeze_axis``, pieces of size 1 lose it."""
    ...

def Softmax(
    data: _A,
    label: _A | None = None,
    grad_scale: float = 1.0,
    ignore_label: float = -1.0,
    multi_output: bool | int = False,
    use_ignore: bool | int = False,
    preserve_shape: bool | int = False,
    normalization: Literal['batch', 'null', 'valid'] | str = 'null',
    out_grad: bool | int = False,
    smooth_alpha: float = 0.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """softmax(data); its gradient is that of the cross entropy, softmax(data) - one_hot(label)"""
    ...

def SoftmaxActivation(
    data: _A,
    mode: Literal['channel', 'instance'] | str = 'instance',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """softmax over all but the first axis (mode='instance'), or over axis 1 (mode='channel')"""
    ...

def SpatialTransformer(
    data: _A,
    loc: _A | None = None,
    target_shape: int | Sequence[int] = ...,
    transform_type: Literal['affine'] | str = ...,
    sampler_type: Literal['bilinear'] | str = ...,
    cudnn_off: bool | int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data under an affine map of positions, by bilinear interpolation; 0 outside of the image"""
    ...

def SwapAxis(
    data: _A,
    dim1: int = 0,
    dim2: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Two axes exchanged."""
    ...

def UpSampling(
    *data: _A,
    num_args: int = 1,
    scale: int,
    num_filter: int = 0,
    sample_type: Literal['bilinear', 'nearest'] | str,
    multi_input_mode: Literal['concat', 'sum'] | str = 'concat',
    workspace: int = 512,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images ``scale`` times as large"""
    ...

def abs(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """|x|"""
    ...

def adam_update(
    weight: _A,
    grad: _A | None = None,
    mean: _A | None = None,
    var: _A | None = None,
    lr: float = ...,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """weight - lr * mean / (sqrt(var) + epsilon), where the mean and the variance are updated in place"""
    ...

def adamw_update(weight: Any, grad: Any, mean: Any, var: Any, rescale_grad: Any, lr: Any, eta: Any, beta1: Any = ..., beta2: Any = ..., epsilon: Any = ..., wd: Any = ..., clip_gradient: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight), where mean and var are updated in place"""
    ...

def adaptive_avg_pooling2d(
    data: _A,
    output_size: int | Sequence[int] | None = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The means of parts of images, as many as ``output_size`` says: (height, width), or one number for both"""
    ...

def add(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs + rhs"""
    ...

def all_finite(
    data: _A,
    init_output: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 if every element is finite, else 0"""
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

def amp_cast(
    data: _A,
    dtype: DTypeLike,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x in another floating-point dtype; what is not floating-point stays as it is"""
    ...

def amp_multicast(
    *data: _A,
    num_outputs: int,
    cast_narrow: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """All inputs in the widest floating-point dtype among them, or the narrowest with ``cast_narrow``"""
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

def arccos(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of the cosine"""
    ...

def arccosh(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of the hyperbolic cosine"""
    ...

def arcsin(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of the sine"""
    ...

def arcsinh(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of the hyperbolic sine"""
    ...

def arctan(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of the tangent"""
    ...

def arctan2(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The angle of the point (rhs, lhs), from -pi to pi"""
    ...

def arctanh(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of the hyperbolic tangent"""
    ...

def argmax(
    data: _A,
    axis: int | None = None,
    keepdims: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The index of the largest element along an axis, in the input's dtype; of equal ones, the first."""
    ...

def argmax_channel(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The index of the largest element along axis 1, in the input's dtype."""
    ...

def argmin(
    data: _A,
    axis: int | None = None,
    keepdims: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The index of the smallest element along an axis, in the input's dtype; of equal ones, the first."""
    ...

def argsort(
    data: _A,
    axis: int | None = -1,
    is_ascend: bool | int = True,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The indices that put the elements in order along an axis; equal elements keep their order."""
    ...

def around(
    data: _A,
    decimals: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x rounded to so many decimals, a half to the even one"""
    ...

def band_sum(
    *data: _A,
    axes: int | Sequence[int],
    taps: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Along each of the ``axes``: weighted sums of ``taps`` elements; further inputs give first indices and weights"""
    ...

def basic_index(
    data: _A,
    begin: int | Sequence[int | None],
    end: int | Sequence[int | None],
    step: int | Sequence[int | None] = (),
    squeeze: int | Sequence[int] = (),
    newaxis: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``data[key]`` for a key of integers, slices and None: slices, drops axes, then adds axes of size 1."""
    ...

def batch_dot(
    lhs: _A,
    rhs: _A | None = None,
    transpose_a: bool | int = False,
    transpose_b: bool | int = False,
    forward_stype: Literal['csr', 'default', 'row_sparse'] | str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs @ rhs for batches of matrices with equal leading axes"""
    ...

def batch_norm_with_relu(
    data: _A,
    gamma: _A | None = None,
    beta: _A | None = None,
    moving_mean: _A | None = None,
    moving_var: _A | None = None,
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
) -> _A:
    """BatchNorm, and 0 instead of what is negative"""
    ...

def batch_take(
    a: _A,
    indices: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``a[i, indices[i]]`` for a matrix ``a``."""
    ...

def bilinear_resize2d(
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

def bipartite_matching(
    data: _A,
    is_ascend: bool | int = False,
    threshold: float = ...,
    topk: int = -1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """The column that each row is matched to, and the row of each column, or -1: the best pairs first"""
    ...

def bitwise_and(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The bits that lhs and rhs both have"""
    ...

def bitwise_not(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The bits that x lacks: -1 - x; of booleans the others"""
    ...

def bitwise_or(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The bits that lhs or rhs has"""
    ...

def bitwise_xor(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The bits that lhs or rhs alone has"""
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
    samples: _A,
    matches: _A | None = None,
    anchors: _A | None = None,
    refs: _A | None = None,
    means: _A | None = None,
    stds: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
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
    data: _A,
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
) -> _A:
    """The boxes that overlap with no box of a higher score, the best first; the other rows are -1"""
    ...

def broadcast_axes(
    data: _A,
    axis: int | Sequence[int] | None = (),
    size: int | Sequence[int] | None = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The named axes, which must have size 1, repeated to ``size``."""
    ...

def broadcast_div(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs / rhs; the quotient of integers is cut towards zero, by 0 it is 0"""
    ...

def broadcast_equal(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs == rhs, else 0"""
    ...

def broadcast_greater(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs > rhs, else 0"""
    ...

def broadcast_greater_equal(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs >= rhs, else 0"""
    ...

def broadcast_hypot(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """sqrt(lhs**2 + rhs**2) without overflow"""
    ...

def broadcast_lesser(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs < rhs, else 0"""
    ...

def broadcast_lesser_equal(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs <= rhs, else 0"""
    ...

def broadcast_like(
    lhs: _A,
    rhs: _A | None = None,
    lhs_axes: int | Sequence[int] | None = None,
    rhs_axes: int | Sequence[int] | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs broadcast to the shape of rhs, or only its axes ``lhs_axes`` to the sizes of ``rhs_axes``."""
    ...

def broadcast_logical_and(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs and rhs are both not 0, else 0"""
    ...

def broadcast_logical_or(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs or rhs is not 0, else 0"""
    ...

def broadcast_logical_xor(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where exactly one of lhs and rhs is not 0, else 0"""
    ...

def broadcast_maximum(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The greater of lhs and rhs; nan if either is nan"""
    ...

def broadcast_minimum(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The lesser of lhs and rhs; nan if either is nan"""
    ...

def broadcast_minus(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs - rhs"""
    ...

def broadcast_mod(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs - floor(lhs / rhs) * rhs: the remainder with the sign of the divisor, 0 where the divisor is 0"""
    ...

def broadcast_mul(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs * rhs"""
    ...

def broadcast_not_equal(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where lhs != rhs, else 0"""
    ...

def broadcast_power(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs ** rhs; of integers modulo their range, and cut towards zero where rhs is negative"""
    ...

def broadcast_to(
    data: _A,
    shape: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Axes of size 1 repeated to ``shape``; a 0 there keeps the input's size."""
    ...

def calibrate_entropy(
    hist: _A,
    hist_edges: _A | None = None,
    num_quantized_bins: int = 255,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """The reach for which the integers differ least from a histogram of numbers, and their divergence"""
    ...

def cast_storage(
    data: _A,
    stype: Literal['csr', 'default', 'row_sparse'] | str,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of x in another storage: sparse as ``'csr'`` or ``'row_sparse'``, or dense, ``'default'``"""
    ...

def cbrt(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The cube root of x"""
    ...

def ceil(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The least whole number that is at least x"""
    ...

def choose_element_0index(
    data: _A,
    index: _A | None = None,
    axis: int = -1,
    keepdims: bool | int = False,
    mode: Literal['clip', 'wrap'] | str = 'clip',
    made: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A gather of one element along an axis: ``data[i, index[i]]``."""
    ...

def clip(
    data: _A,
    a_min: float,
    a_max: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x limited to the range from a_min to a_max"""
    ...

def col2im(
    data: _A,
    output_size: int | Sequence[int],
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of windows, columns as of ``im2col``, in an image: (N, C, *output_size)"""
    ...

def cond(*args: Any, **kwargs: Any) -> Any:
    """Raises: only traced control flow makes these operators."""
    ...

def contract(
    lhs: _A,
    rhs: _A | None = None,
    index: str = ...,
    shape: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sums of products of two arrays' elements, each read at affine sums of the loops' indices"""
    ...

def convolution_data(
    dy: _A,
    weight: _A | None = None,
    kernel: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    num_filter: int = ...,
    num_group: int = 1,
    layout: str | None = None,
    size: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The gradient of a convolution's data, given that of its result and the weight"""
    ...

def convolution_weight(
    data: _A,
    dy: _A | None = None,
    kernel: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    num_filter: int = ...,
    num_group: int = 1,
    layout: str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The gradient of a convolution's weight, given its data and the gradient of its result"""
    ...

def copysign(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """|lhs| with the sign of rhs, also that of a zero"""
    ...

def cos(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The cosine of x"""
    ...

def cosh(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The hyperbolic cosine of x"""
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

def crop(
    data: _A,
    begin: int | Sequence[int | None],
    end: int | Sequence[int | None],
    step: int | Sequence[int | None] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The slice ``data[begin[0]:end[0]:step[0], begin[1]:end[1]:step[1], …]``."""
    ...

def cumprod(
    a: _A,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The products of all elements up to each one along an axis, or in the flattened array; 0 has the gradient nan"""
    ...

def cumsum(
    a: _A,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sums of all elements up to each one along an axis, or in the flattened array."""
    ...

def deformable_convolution(
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

def deformable_psroi_pooling(
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

def degrees(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Radians in degrees, x * 180 / pi"""
    ...

def depth_to_space(
    data: _A,
    block_size: int,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Channels become blocks of pixels: ``(n, c b b, h, w)`` to ``(n, c, h b, w b)``."""
    ...

def dequantize(
    data: _A,
    min_range: _A | None = None,
    max_range: _A | None = None,
    out_type: Literal['float32'] | str = 'float32',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The real numbers for which integers stand, ``data * max(|min_range|, |max_range|) / n``"""
    ...

def dgl_adjacency(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The graph with 1, in float32, for each edge"""
    ...

def dgl_csr_neighbor_non_uniform_sample(*data: Any, num_args: Any = ..., num_hops: Any = ..., num_neighbor: Any = ..., max_num_vertices: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """As ``dgl_csr_neighbor_uniform_sample``, with a chance of each vertex, the second input, to be chosen"""
    ...

def dgl_csr_neighbor_uniform_sample(*data: Any, num_args: Any = ..., num_hops: Any = ..., num_neighbor: Any = ..., max_num_vertices: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """Samples of a graph around vertices: ``num_neighbor`` edges of each, and so on for ``num_hops``"""
    ...

def dgl_graph_compact(*data: Any, num_args: Any = ..., return_mapping: Any = ..., graph_sizes: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """Sampled graphs without what is left of their rows and columns: inputs are graphs, then the vertices of each"""
    ...

def dgl_subgraph(*data: Any, num_args: Any = ..., return_mapping: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """The part of a graph with some of its vertices and the edges between them, for each of several arrays of them"""
    ...

def diag(
    data: _A,
    k: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The k-th diagonal over two axes, which move to the end; of a vector, the matrix that has it there."""
    ...

def diag_scatter(
    data: _A,
    shape: int | Sequence[int],
    k: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Zeros of ``shape`` with the input as their k-th diagonal: the gradient of ``diag``."""
    ...

def digamma(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The derivative of log(gamma(x))"""
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

def dot(
    lhs: _A,
    rhs: _A | None = None,
    transpose_a: bool | int = False,
    transpose_b: bool | int = False,
    forward_stype: Literal['csr', 'default', 'row_sparse'] | str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of products over the last axis of lhs and the first axis of rhs"""
    ...

def edge_id(
    data: _A,
    u: _A | None = None,
    v: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The number of the edge from each vertex of u to the one of v, -1 where there is none"""
    ...

def elemwise_add(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs + rhs for inputs of one shape"""
    ...

def elemwise_div(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs / rhs for inputs of one shape"""
    ...

def elemwise_mul(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs * rhs for inputs of one shape"""
    ...

def elemwise_sub(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs - rhs for inputs of one shape"""
    ...

def elu(
    data: _A,
    slope: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x where it is positive, else slope * (exp(x) - 1)"""
    ...

def erf(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The error function, 2/sqrt(pi) * integral of exp(-t**2) from 0 to x"""
    ...

def erfinv(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of the error function"""
    ...

def exp(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """e**x"""
    ...

def exp2(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """2**x"""
    ...

def expand_dims(
    data: _A,
    axis: int,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A new axis of size 1 at position ``axis``."""
    ...

def expm1(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """e**x - 1, exact for small x"""
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

def fill_element_0index(
    lhs: _A,
    mhs: _A | None = None,
    rhs: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs, in which row i has mhs[i] in the column that rhs[i] names"""
    ...

def fix(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x without its fraction"""
    ...

def flip(
    data: _A,
    axis: int | Sequence[int] | None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The elements in reverse order along ``axis``."""
    ...

def floor(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The greatest whole number that is at most x"""
    ...

def floor_divide(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """floor(lhs / rhs), exactly; of integers 0 where rhs is 0"""
    ...

def fmax(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The greater of lhs and rhs; the other one if one is nan"""
    ...

def fmin(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The lesser of lhs and rhs; the other one if one is nan"""
    ...

def fmod(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The remainder of lhs / rhs with the sign of lhs; of integers 0 where rhs is 0"""
    ...

def frexp(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Mantissas of 0.5 to 1 and exponents, int32, of which x is mantissa * 2**exponent"""
    ...

def ftml_update(
    weight: _A,
    grad: _A | None = None,
    d: _A | None = None,
    v: _A | None = None,
    z: _A | None = None,
    lr: float = ...,
    beta1: float = 0.6,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    t: int = ...,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_grad: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """-z / d at update ``t``, where d, v and z are updated in place"""
    ...

def ftrl_update(
    weight: _A,
    grad: _A | None = None,
    z: _A | None = None,
    n: _A | None = None,
    lr: float = ...,
    lamda1: float = 0.01,
    beta: float = 1.0,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where abs(z) > lamda1, else 0; z and n change in place"""
    ...

def full_like(
    data: _A,
    fill_value: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """One value everywhere, in the shape and dtype of x"""
    ...

def gamma(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The gamma function, (x - 1)! for whole x"""
    ...

def gammaln(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """log|gamma(x)|"""
    ...

def gather_nd(
    data: _A,
    indices: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``data[indices[0], indices[1], …]``; negative indices count from the end."""
    ...

def gcd(
    lhs: _A,
    rhs: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The greatest common divisor of lhs and rhs"""
    ...

def gelu(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x * (1 + erf(x / sqrt(2))) / 2"""
    ...

def getnnz(
    data: _A,
    axis: int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The number of stored values of a csr matrix, or of those in each column"""
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
    weight: _A,
    grad: _A | None = None,
    history: _A | None = None,
    lr: float = ...,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    epsilon: float = 1e-05,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """weight - lr * g / sqrt(history + epsilon), where history, a number for each row, is updated in place"""
    ...

def hard_sigmoid(
    data: _A,
    alpha: float = 0.2,
    beta: float = 0.5,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * x + beta, limited to the range from 0 to 1"""
    ...

def hawkesll(
    lda: _A,
    alpha: _A | None = None,
    beta: _A | None = None,
    state: _A | None = None,
    lags: _A | None = None,
    marks: _A | None = None,
    valid_length: _A | None = None,
    max_time: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """The log likelihoods of sequences of marked points, and the states of the marks at the sequences' ends"""
    ...

def heaviside(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """0 where lhs < 0, 1 where lhs > 0, rhs where lhs is 0; nan stays nan"""
    ...

def identity(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of x"""
    ...

def identity_with_attr_like_rhs(
    lhs: _A,
    rhs: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of lhs, whose shape and dtype are those of rhs"""
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

def im2col(
    data: _A,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The windows of each image (N, C, *image) as columns: (N, C * elements of a window, number of windows)"""
    ...

def image_adjust_lighting(
    data: _A,
    alpha: float | Sequence[float],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with ``alpha`` times the directions added in which the colours of ImageNet vary most"""
    ...

def image_crop(
    data: _A,
    x: int,
    y: int,
    width: int,
    height: int,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A part of each image: ``height`` rows from ``y`` on, ``width`` columns from ``x`` on"""
    ...

def image_flip_left_right(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the columns in the opposite order"""
    ...

def image_flip_top_bottom(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the rows in the opposite order"""
    ...

def image_normalize(
    data: _A,
    mean: float | Sequence[float] = ...,
    std: float | Sequence[float] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(data - mean) / std for each channel of images ``(C, H, W)`` or ``(N, C, H, W)``"""
    ...

def image_random_brightness(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image times a random factor"""
    ...

def image_random_color_jitter(
    data: _A,
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with brightness, contrast, saturation and hue changed at random, in random order"""
    ...

def image_random_contrast(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with its differences from the mean lightness times a random factor"""
    ...

def image_random_crop(
    data: _A,
    xrange: float | Sequence[float] = ...,
    yrange: float | Sequence[float] = ...,
    width: int = ...,
    height: int = ...,
    interp: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A part of ``width`` and ``height`` at a random place; of a smaller image as much as fits, resized"""
    ...

def image_random_flip_left_right(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the columns in the opposite order, with probability 1/2"""
    ...

def image_random_flip_top_bottom(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the rows in the opposite order, with probability 1/2"""
    ...

def image_random_hue(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with its hues moved around the circle of colours by a random part of it"""
    ...

def image_random_lighting(
    data: _A,
    alpha_std: float = 0.05,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with random noise along the directions in which the colours of ImageNet vary most"""
    ...

def image_random_resized_crop(
    data: _A,
    width: int,
    height: int,
    area: float | Sequence[float] = ...,
    ratio: float | Sequence[float] = ...,
    interp: int = 1,
    max_trial: int = 10,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A part of random area and ratio of sides at a random place, resized to ``width`` and ``height``"""
    ...

def image_random_saturation(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with the differences from the lightness of each pixel times a random factor"""
    ...

def image_resize(
    data: _A,
    size: int | Sequence[int] = (),
    keep_ratio: bool | int = False,
    interp: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with another width and height, as OpenCV resizes them"""
    ...

def image_to_tensor(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images as float32, divided by 255, with the channels before rows and columns"""
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

def khatri_rao(
    *args: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The Kronecker products of the columns of all matrices, which have equally many columns"""
    ...

def lamb_update_phase1(
    weight: _A,
    grad: _A | None = None,
    mean: _A | None = None,
    var: _A | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-06,
    t: int = ...,
    bias_correction: bool | int = True,
    wd: float = ...,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """mean1 / (sqrt(var1) + epsilon) + wd * weight, where the mean and the variance are updated in place"""
    ...

def lamb_update_phase2(
    weight: _A,
    g: _A | None = None,
    r1: _A | None = None,
    r2: _A | None = None,
    lr: float = ...,
    lower_bound: float = -1.0,
    upper_bound: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """weight - lr * r1 / r2 * g, where r1 and r2 are the lengths of the weight and of g"""
    ...

def lcm(
    lhs: _A,
    rhs: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The least common multiple of lhs and rhs"""
    ...

def ldexp(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs * 2**rhs"""
    ...

def leaky(
    data: _A,
    slope: float = 0.25,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x where it is positive, else slope * x"""
    ...

def left_shift(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs * 2**rhs modulo the range of the dtype; 0 where rhs is negative or the number of bits or more"""
    ...

def linalg_det(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The determinant of each square matrix; the gradient of a singular one is 0"""
    ...

def linalg_extractdiag(
    A: _A,
    offset: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A diagonal of each square matrix, along the last axis."""
    ...

def linalg_extracttrian(
    A: _A,
    offset: int = 0,
    lower: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The elements of a triangle of each square matrix along the last axis."""
    ...

def linalg_gelqf(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """The LQ factorization of each matrix with at least as many columns as rows: Q and L, where A = L Q"""
    ...

def linalg_gemm(
    A: _A,
    B: _A | None = None,
    C: _A | None = None,
    transpose_a: bool | int = False,
    transpose_b: bool | int = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    axis: int = -2,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * op(A) @ op(B) + beta * C, where op transposes or not"""
    ...

def linalg_gemm2(
    A: _A,
    B: _A | None = None,
    transpose_a: bool | int = False,
    transpose_b: bool | int = False,
    alpha: float = 1.0,
    axis: int = -2,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * op(A) @ op(B), where op transposes or not"""
    ...

def linalg_inverse(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of each square matrix"""
    ...

def linalg_makediag(
    A: _A,
    offset: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Square matrices with the elements of the last axis on a diagonal; 0 elsewhere."""
    ...

def linalg_maketrian(
    A: _A,
    offset: int = 0,
    lower: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Square matrices with the elements of the last axis as a triangle; 0 elsewhere."""
    ...

def linalg_potrf(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The Cholesky factor of each symmetric positive definite matrix: the lower triangular L with A = L Lᵀ"""
    ...

def linalg_potri(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of L Lᵀ, given its Cholesky factor, the lower triangular L"""
    ...

def linalg_slogdet(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """The sign of each square matrix's determinant, and the logarithm of its absolute value"""
    ...

def linalg_sumlogdiag(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of the logarithms of each square matrix's diagonal: half the log-determinant of L Lᵀ, given L."""
    ...

def linalg_syevd(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """The eigenvectors of each symmetric matrix, as the rows of U, and its eigenvalues, in ascending order"""
    ...

def linalg_syrk(
    A: _A,
    transpose: bool | int = False,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * A @ A.T, or alpha * A.T @ A with ``transpose``"""
    ...

def linalg_trmm(
    A: _A,
    B: _A | None = None,
    transpose: bool | int = False,
    rightside: bool | int = False,
    lower: bool | int = True,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * op(A) @ B, or alpha * B @ op(A) with ``rightside``, where A is triangular and op transposes or not"""
    ...

def linalg_trsm(
    A: _A,
    B: _A | None = None,
    transpose: bool | int = False,
    rightside: bool | int = False,
    lower: bool | int = True,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The solution X of op(A) @ X = alpha * B, or of X @ op(A) = alpha * B with ``rightside``, by BLAS"""
    ...

def log(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The natural logarithm of x"""
    ...

def log10(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The logarithm of x to the base 10"""
    ...

def log1p(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """log(1 + x), exact for small x"""
    ...

def log2(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The logarithm of x to the base 2"""
    ...

def log_sigmoid(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """log(1 / (1 + exp(-x))) without overflow"""
    ...

def log_softmax(
    data: _A,
    axis: int = -1,
    temperature: float | None = None,
    dtype: DTypeLike | None = None,
    use_length: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The logarithm of softmax, exact where softmax is almost 0"""
    ...

def logaddexp(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """log(e**lhs + e**rhs) without overflow"""
    ...

def logical_not(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 where x is 0, else 0"""
    ...

def loop(*args: Any, **kwargs: Any) -> Any:
    """Raises: only traced control flow makes these operators."""
    ...

def make_loss(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A copy of x that is a loss: its gradient is 1, whatever the gradient of the output"""
    ...

def matmul(
    lhs: _A,
    rhs: _A | None = None,
    transpose_a: bool | int = False,
    transpose_b: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs @ rhs for matrices, or for batches of them with equal leading axes"""
    ...

def max(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The greatest element along axes; nan if any is nan"""
    ...

def mean(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The mean of the elements along axes"""
    ...

def min(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The least element along axes; nan if any is nan"""
    ...

def modulated_deformable_convolution(
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
    im2col_step: int = 64,
    layout: Literal['NCHW', 'NCW', 'NCDHW'] | str | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A convolution whose taps are moved by offsets and multiplied by a mask, which the data may decide"""
    ...

def moments(
    data: _A,
    axes: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """The mean and the variance of the elements along axes"""
    ...

def mp_adamw_update(weight: Any, grad: Any, mean: Any, var: Any, weight32: Any, rescale_grad: Any, lr: Any, eta: Any, beta1: Any = ..., beta2: Any = ..., epsilon: Any = ..., wd: Any = ..., clip_gradient: Any = ..., out: Any = ..., name: Any = ...) -> Any:
    """``adamw_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""
    ...

def mp_lamb_update_phase1(
    weight: _A,
    grad: _A | None = None,
    mean: _A | None = None,
    var: _A | None = None,
    weight32: _A | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-06,
    t: int = ...,
    bias_correction: bool | int = True,
    wd: float = ...,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``lamb_update_phase1`` of the float32 copy ``weight32``, which stays as it is; the result has float32"""
    ...

def mp_lamb_update_phase2(
    weight: _A,
    g: _A | None = None,
    r1: _A | None = None,
    r2: _A | None = None,
    weight32: _A | None = None,
    lr: float = ...,
    lower_bound: float = -1.0,
    upper_bound: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``lamb_update_phase2`` of the float32 copy ``weight32``, in place; the result is the copy, rounded"""
    ...

def mp_nag_mom_update(
    weight: _A,
    grad: _A | None = None,
    mom: _A | None = None,
    weight32: _A | None = None,
    lr: float = ...,
    momentum: float = 0.0,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``nag_mom_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""
    ...

def mp_sgd_mom_update(
    weight: _A,
    grad: _A | None = None,
    mom: _A | None = None,
    weight32: _A | None = None,
    lr: float = ...,
    momentum: float = 0.0,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``sgd_mom_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""
    ...

def mp_sgd_update(
    weight: _A,
    grad: _A | None = None,
    weight32: _A | None = None,
    lr: float = ...,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``sgd_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""
    ...

def multi_adamw_update(weights: Any, grads: Any, mean: Any, var: Any, rescale_grad: Any, lrs: Any, wds: Any, etas: Any, out: Any = ..., name: Any = ..., size: Any = ..., **kwargs: Any) -> Any:
    """``adamw_update`` of several weights; nothing changes if ``rescale_grad`` is 0, infinite or NaN"""
    ...

def multi_all_finite(
    *data: _A,
    num_arrays: int = 1,
    init_output: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 if every element of every input is finite, else 0"""
    ...

def multi_box_detection(
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

def multi_box_prior(
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

def multi_box_target(
    anchor: _A,
    label: _A | None = None,
    cls_pred: _A | None = None,
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
) -> list[_A]:
    """What a single-shot detector is to predict for each anchor: offsets, their mask, and classes; no gradient flows"""
    ...

def multi_lamb_update(weights: Any, grads: Any, mean: Any, var: Any, step_count: Any, lrs: Any, wds: Any, out: Any = ..., num_tensors: Any = ..., **kwargs: Any) -> Any:
    """LAMB's step of several weights: ``lamb_update_phase1``, then ``lamb_update_phase2``"""
    ...

def multi_lars(
    lrs: _A,
    weights_sum_sq: _A | None = None,
    grads_sum_sq: _A | None = None,
    wds: _A | None = None,
    eta: float = ...,
    eps: float = ...,
    rescale_grad: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lrs * eta * w / (g + wds * w + eps), where w = sqrt(weights_sum_sq) and g = rescale_grad * sqrt(grads_sum_sq)"""
    ...

def multi_mp_adamw_update(weights: Any, grads: Any, mean: Any, var: Any, weights32: Any, rescale_grad: Any, lrs: Any, wds: Any, etas: Any, out: Any = ..., name: Any = ..., size: Any = ..., **kwargs: Any) -> Any:
    """``mp_adamw_update`` of several weights; nothing changes if ``rescale_grad`` is 0, infinite or NaN"""
    ...

def multi_mp_lamb_update(weights: Any, grads: Any, mean: Any, var: Any, weights32: Any, step_count: Any, lrs: Any, wds: Any, out: Any = ..., num_tensors: Any = ..., **kwargs: Any) -> Any:
    """LAMB's step of several weights, of float32 copies: ``multi_lamb_update`` of ``weights32``, in place"""
    ...

def multi_mp_sgd_mom_update(
    *data: _A,
    lrs: float | Sequence[float],
    wds: float | Sequence[float],
    momentum: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``mp_sgd_mom_update`` of several weights: weight, grad, mom, weight32 of the first, of the second, …"""
    ...

def multi_mp_sgd_update(
    *data: _A,
    lrs: float | Sequence[float],
    wds: float | Sequence[float],
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``mp_sgd_update`` of several weights: weight, grad, weight32 of the first, of the second, …"""
    ...

def multi_proposal(
    cls_prob: _A,
    bbox_pred: _A | None = None,
    im_info: _A | None = None,
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
) -> _A:
    """The best regions of each image: rows (image, left, top, right, bottom), and their scores; no gradient flows"""
    ...

def multi_sgd_mom_update(
    *data: _A,
    lrs: float | Sequence[float],
    wds: float | Sequence[float],
    momentum: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``sgd_mom_update`` of several weights: weight, grad, mom of the first, of the second, …"""
    ...

def multi_sgd_update(
    *data: _A,
    lrs: float | Sequence[float],
    wds: float | Sequence[float],
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``sgd_update`` of several weights: weight, grad of the first, of the second, …"""
    ...

def multi_sum_sq(
    *data: _A,
    num_arrays: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of squares of each input, in one array"""
    ...

def nag_mom_update(
    weight: _A,
    grad: _A | None = None,
    mom: _A | None = None,
    lr: float = ...,
    momentum: float = 0.0,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """weight + momentum * mom - lr * g, where mom = momentum * mom - lr * g is updated in place"""
    ...

def nan_to(
    data: _A,
    value: float = 0.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x with ``value`` in place of nan"""
    ...

def nan_to_num(
    data: _A,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x with numbers for nan and for the infinities"""
    ...

def nanprod(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The product of the elements that are not nan"""
    ...

def nansum(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of the elements that are not nan"""
    ...

def negative(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """-x"""
    ...

def norm(
    data: _A,
    ord: int = 2,
    axis: int | Sequence[int] | None = None,
    out_dtype: DTypeLike | None = None,
    keepdims: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of absolute values (ord=1) or the square root of the sum of squares (ord=2) along axes"""
    ...

def one_hot(
    indices: _A,
    depth: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    dtype: DTypeLike = 'float32',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``on_value`` at the place that the index names along a new last axis, ``off_value`` elsewhere."""
    ...

def ones_like(
    data: _A,
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Ones in the shape and dtype of x"""
    ...

def pick_scatter(
    data: _A,
    index: _A | None = None,
    shape: int | Sequence[int] = ...,
    axis: int = -1,
    mode: Literal['clip', 'wrap'] | str = 'clip',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Zeros of ``shape`` with the input's elements at the places ``index``: the gradient of ``pick``."""
    ...

def preloaded_multi_mp_sgd_mom_update(
    *data: _A,
    momentum: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``multi_mp_sgd_mom_update`` with the learning rates and the weight decays as the last two inputs, of float32"""
    ...

def preloaded_multi_mp_sgd_update(
    *data: _A,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``multi_mp_sgd_update`` with the learning rates and the weight decays as the last two inputs, of float32"""
    ...

def preloaded_multi_sgd_mom_update(
    *data: _A,
    momentum: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``multi_sgd_mom_update`` with the learning rates and the weight decays as the last two inputs, of float32"""
    ...

def preloaded_multi_sgd_update(
    *data: _A,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    num_weights: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``multi_sgd_update`` with the learning rates and the weight decays as the last two inputs, of float32"""
    ...

def prelu(
    data: _A,
    gamma: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data where it is positive, else gamma * data; gamma is one number or one for each channel (axis 1)"""
    ...

def prod(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The product of the elements along axes; its gradient is nan where an element is 0"""
    ...

def proposal(
    cls_prob: _A,
    bbox_pred: _A | None = None,
    im_info: _A | None = None,
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
) -> _A:
    """The best regions of one image: rows (0, left, top, right, bottom), and their scores; no gradient flows"""
    ...

def psroi_pooling(
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
    data: _A,
    min_range: _A | None = None,
    max_range: _A | None = None,
    out_type: Literal['int8', 'uint8'] | str = 'uint8',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Real numbers as integers, for a range that is given; the range of the integers follows"""
    ...

def quantize_asym(
    data: _A,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Real numbers as integers from 0 to 255 that span the range, ``data * scale + shift``, and scale and shift"""
    ...

def quantize_v2(
    data: _A,
    out_type: Literal['auto', 'int8', 'uint8'] | str = 'int8',
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Real numbers as integers, for the range of calibration, or else that of the numbers; integers stay as they are"""
    ...

def quantized_act(
    data: _A,
    min_data: _A | None = None,
    max_data: _A | None = None,
    act_type: Literal['relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'] | str = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
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
    *data: _A,
    num_args: int = 0,
    dim: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Integers one after the other along an axis, in the widest range; signed if some are"""
    ...

def quantized_conv(
    data: _A,
    weight: _A | None = None,
    bias: _A | None = None,
    min_data: _A | None = None,
    max_data: _A | None = None,
    min_weight: _A | None = None,
    max_weight: _A | None = None,
    min_bias: _A | None = None,
    max_bias: _A | None = None,
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
) -> list[_A]:
    """The convolution of integers of 8 bits, as integers of 32 and their range"""
    ...

def quantized_elemwise_add(
    lhs: _A,
    rhs: _A | None = None,
    lhs_min: _A | None = None,
    lhs_max: _A | None = None,
    rhs_min: _A | None = None,
    rhs_max: _A | None = None,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """lhs + rhs of integers: of 8 bits for a range that is known, else of 32"""
    ...

def quantized_elemwise_mul(
    lhs: _A,
    rhs: _A | None = None,
    lhs_min: _A | None = None,
    lhs_max: _A | None = None,
    rhs_min: _A | None = None,
    rhs_max: _A | None = None,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    enable_float_output: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """lhs * rhs of integers: of 8 bits for a range that is known, else of 32; or the real numbers"""
    ...

def quantized_embedding(
    data: _A,
    weight: _A | None = None,
    min_weight: _A | None = None,
    max_weight: _A | None = None,
    input_dim: int = ...,
    output_dim: int = ...,
    dtype: DTypeLike = 'float32',
    sparse_grad: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Rows of a matrix of integers, by their indices"""
    ...

def quantized_flatten(
    data: _A,
    min_data: _A | None = None,
    max_data: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """All axes but the first as one"""
    ...

def quantized_fully_connected(
    data: _A,
    weight: _A | None = None,
    bias: _A | None = None,
    min_data: _A | None = None,
    max_data: _A | None = None,
    min_weight: _A | None = None,
    max_weight: _A | None = None,
    min_bias: _A | None = None,
    max_bias: _A | None = None,
    num_hidden: int = ...,
    no_bias: bool | int = False,
    flatten: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """data @ weight.T + bias on integers of 8 bits, as integers of 32 and their range"""
    ...

def quantized_pooling(
    data: _A,
    min_data: _A | None = None,
    max_data: _A | None = None,
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
) -> list[_A]:
    """The greatest, or the mean, of integers in windows; means are rounded"""
    ...

def radians(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Degrees in radians, x * pi / 180"""
    ...

def random_exponential_like(
    data: _A,
    lam: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers from the exponential distribution with the mean 1 / lam, in the shape of data"""
    ...

def random_gamma_like(
    data: _A,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers from the gamma distribution with the mean alpha beta, in the shape of data"""
    ...

def random_generalized_negative_binomial_like(
    data: _A,
    mu: float = 1.0,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Counts with the mean mu and the variance mu + alpha mu^2, in the shape of data"""
    ...

def random_negative_binomial_like(
    data: _A,
    k: int = 1,
    p: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """How many failures come before the k-th success of probability p, in the shape of data"""
    ...

def random_normal_like(
    data: _A,
    loc: float = 0.0,
    scale: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers from the normal distribution, in the shape of data"""
    ...

def random_pdf_dirichlet(
    sample: _A,
    alpha: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The density of Dirichlet distributions with the concentrations along alpha's last axis"""
    ...

def random_pdf_exponential(
    sample: _A,
    lam: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lam exp(-lam sample): the density of exponential distributions with the rate lam"""
    ...

def random_pdf_gamma(
    sample: _A,
    alpha: _A | None = None,
    beta: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The density of gamma distributions with the shape alpha and the rate beta: their mean is alpha / beta"""
    ...

def random_pdf_generalized_negative_binomial(
    sample: _A,
    mu: _A | None = None,
    alpha: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The probability of counts with the mean mu and the variance mu + alpha mu^2"""
    ...

def random_pdf_negative_binomial(
    sample: _A,
    k: _A | None = None,
    p: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The probability of so many failures before the k-th success of probability p; k may be fractional"""
    ...

def random_pdf_normal(
    sample: _A,
    mu: _A | None = None,
    sigma: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The density of normal distributions with the mean mu and the standard deviation sigma"""
    ...

def random_pdf_poisson(
    sample: _A,
    lam: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lam**sample exp(-lam) / sample!: the probability of counts with the mean lam"""
    ...

def random_pdf_uniform(
    sample: _A,
    low: _A | None = None,
    high: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 / (high - low): the density of uniform distributions between low and high"""
    ...

def random_poisson_like(
    data: _A,
    lam: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Counts from the Poisson distribution with the mean lam, in the shape of data"""
    ...

def random_uniform_like(
    data: _A,
    low: float = 0.0,
    high: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers that are equally likely anywhere from low to high, in the shape of data"""
    ...

def ravel_multi_index(
    data: _A,
    shape: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The position in row-major order of the element that each column of data names by its coordinates."""
    ...

def rcbrt(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 / cbrt(x)"""
    ...

def reciprocal(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 / x"""
    ...

def relu(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """max(x, 0)"""
    ...

def repeat(
    data: _A,
    repeats: int,
    axis: int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Each element repeated, along an axis or, without one, in the flattened array."""
    ...

def requantize(
    data: _A,
    min_range: _A | None = None,
    max_range: _A | None = None,
    out_type: Literal['auto', 'int8', 'uint8'] | str = 'int8',
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Integers of 32 bits as integers of 8, for the range of calibration, or else that of the numbers"""
    ...

def resample(
    data: _A,
    axes: int | Sequence[int],
    size: int | Sequence[int],
    count: int | Sequence[int],
    kind: Literal['centers', 'corners', 'means'] | str,
    transposed: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The axes in other sizes: by interpolation between centers or corners of pixels, or by means of parts"""
    ...

def reset_arrays(
    *data: _A,
    num_arrays: int,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> list[_A]:
    """Sets every element of each input to zero, in place; there is no result"""
    ...

def reshape_like(
    lhs: _A,
    rhs: _A | None = None,
    lhs_begin: int | None = None,
    lhs_end: int | None = None,
    rhs_begin: int | None = None,
    rhs_end: int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The elements of lhs in the shape of rhs; begin and end limit what is replaced."""
    ...

def reshape_to(
    data: _A,
    shape: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The same elements, in row-major order, in exactly this shape: no number is special."""
    ...

def right_shift(
    lhs: _A | float,
    rhs: _A | float | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """floor(lhs / 2**rhs); that of the largest shift where rhs is negative or the number of bits or more"""
    ...

def rint(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The whole number nearest to x, a half towards minus infinity"""
    ...

def rmsprop_update(
    weight: _A,
    grad: _A | None = None,
    n: _A | None = None,
    lr: float = ...,
    gamma1: float = 0.95,
    epsilon: float = 1e-08,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    clip_weights: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """clip(weight - lr * g / sqrt(n + epsilon)), where n = gamma1 * n + (1 - gamma1) * g**2 is updated in place"""
    ...

def rmspropalex_update(
    weight: _A,
    grad: _A | None = None,
    n: _A | None = None,
    g: _A | None = None,
    delta: _A | None = None,
    lr: float = ...,
    gamma1: float = 0.95,
    gamma2: float = 0.9,
    epsilon: float = 1e-08,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    clip_weights: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """clip(weight + delta), where n, g and delta are updated in place"""
    ...

def rnn_param_concat(
    *data: _A,
    dim: int = 1,
    num_args: int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``Concat`` of the parameters of an RNN, of which some, of equal size, may be unknown"""
    ...

def roi_align(
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

def round(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The whole number nearest to x, a half away from zero"""
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

def rows_scatter(
    data: _A,
    indices: _A | None = None,
    shape: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Zeros of ``shape``, to whose rows those of the input are added, as a row_sparse array."""
    ...

def rrelu(
    data: _A,
    lower_bound: float = 0.125,
    upper_bound: float = 0.334,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x where it is positive, else slope * x: a random slope for each element in training, their mean else"""
    ...

def rroi_align(
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

def rsqrt(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 / sqrt(x)"""
    ...

def sample_exponential(
    lam: _A,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of lam, numbers from the exponential distribution with the mean 1 / lam"""
    ...

def sample_gamma(
    alpha: _A,
    beta: _A | None = None,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of alpha and beta, numbers from that gamma distribution"""
    ...

def sample_generalized_negative_binomial(
    mu: _A,
    alpha: _A | None = None,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of mu and alpha, counts with the mean mu and the variance mu + alpha mu^2"""
    ...

def sample_multinomial(
    data: _A,
    shape: int | Sequence[int] = (),
    get_prob: bool | int = False,
    dtype: DTypeLike = 'int32',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Indices drawn by the probabilities in each row of data; with ``get_prob``, also their logarithms."""
    ...

def sample_negative_binomial(
    k: _A,
    p: _A | None = None,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of k and p, how many failures come before the k-th success"""
    ...

def sample_normal(
    mu: _A,
    sigma: _A | None = None,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of mu and sigma, numbers from that normal distribution"""
    ...

def sample_poisson(
    lam: _A,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of lam, counts from the Poisson distribution with that mean"""
    ...

def sample_uniform(
    low: _A,
    high: _A | None = None,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """For each element of low and high, numbers that are equally likely between them"""
    ...

def sample_unique_zipfian(
    range_max: int,
    shape: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """Rows of different classes, drawn from a log-uniform distribution, and how many draws each row took"""
    ...

def scatter_add_nd(
    data: _A,
    indices: _A | None = None,
    shape: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Scatter-add of the input's elements at ``indices`` into zeros of ``shape``."""
    ...

def scatter_along_axis(
    data: _A,
    indices: _A | None = None,
    size: int = ...,
    axis: int = -1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Scatter-add of the elements of data along an axis into zeros (the gradient of that gather)."""
    ...

def scatter_nd(
    data: _A,
    indices: _A | None = None,
    shape: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Scatter of the input's elements at ``indices`` into zeros of ``shape``; of duplicates, the last."""
    ...

def scatter_set_nd(
    lhs: _A,
    rhs: _A | None = None,
    indices: _A | None = None,
    shape: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs with the elements of rhs at ``indices``; of duplicates, the last."""
    ...

def selu(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1.0507 * (x where it is positive, else 1.6733 * (exp(x) - 1))"""
    ...

def sgd_mom_update(
    weight: _A,
    grad: _A | None = None,
    mom: _A | None = None,
    lr: float = ...,
    momentum: float = 0.0,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """weight + mom, where mom = momentum * mom - lr * (clip(rescale_grad * grad) + wd * weight) is updated in place"""
    ...

def sgd_update(
    weight: _A,
    grad: _A | None = None,
    lr: float = ...,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    lazy_update: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """weight - lr * (clip(rescale_grad * grad) + wd * weight)"""
    ...

def shape_array(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The input's shape as an int64 array."""
    ...

def shuffle(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The slices along the first axis in random order"""
    ...

def sigmoid(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 / (1 + exp(-x))"""
    ...

def sign(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """-1, 0 or 1 as x is negative, zero or positive; nan stays nan"""
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

def signsgd_update(
    weight: _A,
    grad: _A | None = None,
    lr: float = ...,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(1 - lr * wd) * weight - lr * sign(grad)"""
    ...

def signum_update(
    weight: _A,
    grad: _A | None = None,
    mom: _A | None = None,
    lr: float = ...,
    momentum: float = 0.0,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    wd_lh: float = 0.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(1 - lr * wd_lh) * weight + lr * sign(mom), where mom is updated in place"""
    ...

def silu(
    data: _A,
    beta: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x / (1 + exp(-beta * x)), also called swish"""
    ...

def sin(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sine of x"""
    ...

def sinh(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The hyperbolic sine of x"""
    ...

def size_array(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The input's number of elements as an int64 array of one element."""
    ...

def slice_assign(
    lhs: _A,
    rhs: _A | None = None,
    begin: int | Sequence[int | None] = ...,
    end: int | Sequence[int | None] = ...,
    step: int | Sequence[int | None] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lhs, in which the slice ``[begin:end:step]`` is replaced by rhs (which broadcasts)."""
    ...

def slice_assign_scalar(
    data: _A,
    scalar: float = 0.0,
    begin: int | Sequence[int | None] = ...,
    end: int | Sequence[int | None] = ...,
    step: int | Sequence[int | None] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """data, in which the slice ``[begin:end:step]`` is replaced by a scalar."""
    ...

def slice_axis(
    data: _A,
    axis: int,
    begin: int,
    end: int | None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``data[begin:end]`` along one axis."""
    ...

def slice_like(
    data: _A,
    shape_like: _A | None = None,
    axes: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The first elements along each axis (or along ``axes``), as many as ``shape_like`` has."""
    ...

def slice_scatter(
    data: _A,
    shape: int | Sequence[int],
    begin: int | Sequence[int | None],
    end: int | Sequence[int | None],
    step: int | Sequence[int | None] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Zeros of ``shape`` in which the slice ``[begin:end:step]`` is the input: the gradient of slicing."""
    ...

def smooth_l1(
    data: _A,
    scalar: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(scalar * x)**2 / 2 where |x| < 1 / scalar**2, else |x| - 0.5 / scalar**2"""
    ...

def softmax(
    data: _A,
    length: _A | None = None,
    axis: int = -1,
    temperature: float | None = None,
    dtype: DTypeLike | None = None,
    use_length: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """exp(data / temperature), divided by its sum along axis"""
    ...

def softmax_cross_entropy(
    data: _A,
    label: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum over all examples of -log(softmax(data)[label])"""
    ...

def softmin(
    data: _A,
    axis: int = -1,
    temperature: float | None = None,
    dtype: DTypeLike | None = None,
    use_length: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """exp(-data / temperature), divided by its sum along axis"""
    ...

def softrelu(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """log(1 + exp(x)) without overflow"""
    ...

def softsign(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x / (1 + |x|)"""
    ...

def sort(
    data: _A,
    axis: int | None = -1,
    is_ascend: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The elements in order along an axis."""
    ...

def space_to_depth(
    data: _A,
    block_size: int,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Blocks of pixels become channels: ``(n, c, h b, w b)`` to ``(n, c b b, h, w)``."""
    ...

def sparse_adagrad_update(
    weight: _A,
    grad: _A | None = None,
    history: _A | None = None,
    lr: float = ...,
    epsilon: float = 1e-07,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """weight - lr * g / sqrt(history + epsilon), where history += g**2 is updated in place"""
    ...

def sparse_retain(
    data: _A,
    indices: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Some rows of an array, by their numbers; the other rows are zero"""
    ...

def sqrt(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The square root of x"""
    ...

def square(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """x**2"""
    ...

def square_sum(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of the squared elements along axes"""
    ...

def squeeze(
    data: _A,
    axis: int | Sequence[int] | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Without the axes of size 1, or without the named ones; if none is left the shape is (1,)."""
    ...

def stack(
    *data: _A,
    axis: int = 0,
    num_args: int | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inputs, which have one shape, along a new axis."""
    ...

def stateful_backward(
    *data: Fluent,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The backward of a stateful operator."""
    ...

def subgraph(*args: Any, **kwargs: Any) -> Any:
    """Raises: only the partitioner makes subgraphs."""
    ...

def sum(
    data: _A,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | int = False,
    exclude: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of the elements along axes"""
    ...

def sum_to(
    data: _A,
    shape: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum over the axes along which ``shape`` would broadcast to the input's shape"""
    ...

def sync_batch_norm(
    data: _A,
    gamma: _A | None = None,
    beta: _A | None = None,
    moving_mean: _A | None = None,
    moving_var: _A | None = None,
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
) -> _A:
    """BatchNorm along axis 1, with the variance instead of 1 / sqrt(variance + eps) as the third output"""
    ...

def take(
    a: _A,
    indices: _A | None = None,
    axis: int = 0,
    mode: Literal['clip', 'wrap', 'raise'] | str = 'clip',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``a[…, indices, …]``: the slices of ``a`` along an axis that the indices name."""
    ...

def take_along_axis(
    data: _A,
    indices: _A | None = None,
    axis: int = -1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """``data[…, indices[…], …]``: a gather along an axis (``take_along_axis``)."""
    ...

def take_scatter(
    data: _A,
    indices: _A | None = None,
    shape: int | Sequence[int] = ...,
    axis: int = 0,
    mode: Literal['clip', 'wrap', 'raise'] | str = 'clip',
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Zeros of ``shape``, to whose slices those of the input are added: the gradient of ``take``."""
    ...

def tan(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The tangent of x"""
    ...

def tanh(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The hyperbolic tangent of x"""
    ...

def tile(
    data: _A,
    reps: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The whole array repeated ``reps[i]`` times along each axis; missing axes are put in front."""
    ...

def topk(
    data: _A,
    axis: int | None = -1,
    k: int = 1,
    ret_typ: Literal['value', 'indices', 'mask', 'both'] | str = 'indices',
    is_ascend: bool | int = False,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The k largest (or smallest) elements along an axis: their indices, values, both, or a 0/1 mask."""
    ...

def transpose(
    data: _A,
    axes: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The axes in another order; reversed if none is given."""
    ...

def unravel_index(
    data: _A,
    shape: int | Sequence[int],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The coordinates, one row an axis, of the elements at the given positions in row-major order."""
    ...

def where(condition: Fluent, x: _A, y: _A, out: Any = None, name: str | None = None) -> _A:
    """x where the condition is not 0, else y."""
    ...

def where_by_shapes(
    condition: _A,
    x: _A | None = None,
    y: _A | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """where, for inputs whose shapes are not known where it is called: they say whether the condition selects rows"""
    ...

def while_loop(*args: Any, **kwargs: Any) -> Any:
    """Raises: only traced control flow makes these operators."""
    ...

def window_max(
    data: _A,
    axes: int | Sequence[int],
    kernel: int | Sequence[int],
    count: int | Sequence[int],
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The largest element of each window; nan if there is one, -inf if no element is there."""
    ...

def window_pick(
    data: _A,
    place: _A | None = None,
    axes: int | Sequence[int] = ...,
    kernel: int | Sequence[int] = ...,
    count: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    size: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Of each window the element whose number is given; 0 for -1."""
    ...

def window_place(
    data: _A,
    axes: int | Sequence[int],
    kernel: int | Sequence[int],
    count: int | Sequence[int],
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The number of each window's first largest element among all of the axes in row-major order"""
    ...

def window_spread(
    data: _A,
    axes: int | Sequence[int],
    kernel: int | Sequence[int],
    count: int | Sequence[int],
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    size: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Each window's value added to all elements of that window: the adjoint of ``window_sum``."""
    ...

def window_spread_at(
    data: _A,
    place: _A | None = None,
    axes: int | Sequence[int] = ...,
    kernel: int | Sequence[int] = ...,
    count: int | Sequence[int] = ...,
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    size: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Each window's value added to the one element whose index is given: a scatter-add."""
    ...

def window_sum(
    data: _A,
    axes: int | Sequence[int],
    kernel: int | Sequence[int],
    count: int | Sequence[int],
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    power: int = 1,
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of each window's elements, or of a power of them."""
    ...

def windows(
    data: _A,
    axes: int | Sequence[int],
    kernel: int | Sequence[int],
    count: int | Sequence[int],
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The elements of each window: axes for the index in a window are added; 0 outside of the array."""
    ...

def windows_add(
    data: _A,
    axes: int | Sequence[int],
    kernel: int | Sequence[int],
    count: int | Sequence[int],
    stride: int | Sequence[int] = (),
    pad: int | Sequence[int] = (),
    dilate: int | Sequence[int] = (),
    size: int | Sequence[int] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The overlapping windows added up, each element where it came from: the adjoint of ``windows``."""
    ...

def zeros_like(
    data: _A,
    dtype: DTypeLike | None = None,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Zeros in the shape and dtype of x"""
    ...

Convolution_v1 = Convolution
SoftmaxOutput = Softmax
activation = Activation
add_n = ElementWiseSum
batch_norm = BatchNorm
batch_norm_v1 = BatchNorm_v1
bilinear_sampler = BilinearSampler
block_grad = BlockGrad
broadcast_add = add
broadcast_axis = broadcast_axes
broadcast_plus = add
broadcast_sub = broadcast_minus
cast = Cast
concat = Concat
convolution = Convolution
correlation = Correlation
crop_like = Crop
ctc_loss = CTCLoss
custom = Custom
deconvolution = Deconvolution
divide = broadcast_div
dropout = Dropout
embedding = Embedding
equal = broadcast_equal
flatten = Flatten
fully_connected = FullyConnected
greater = broadcast_greater
greater_equal = broadcast_greater_equal
grid_generator = GridGenerator
group_norm = GroupNorm
hypot = broadcast_hypot
identity_attach_kl_sparse_reg = IdentityAttachKLSparseReg
instance_norm = InstanceNorm
l2_normalization = L2Normalization
layer_norm = LayerNorm
leaky_relu = LeakyReLU
lesser = broadcast_lesser
lesser_equal = broadcast_lesser_equal
linear_regression_output = LinearRegressionOutput
logical_and = broadcast_logical_and
logical_or = broadcast_logical_or
logical_xor = broadcast_logical_xor
logistic_regression_output = LogisticRegressionOutput
loss_output = MakeLoss
lrn = LRN
mae_regression_output = MAERegressionOutput
max_axis = max
maximum = broadcast_maximum
min_axis = min
minimum = broadcast_minimum
modulo = broadcast_mod
multiply = broadcast_mul
not_equal = broadcast_not_equal
pad = Pad
pick = choose_element_0index
pooling = Pooling
pooling_v1 = Pooling_v1
pow = broadcast_power
reshape = Reshape
reverse = flip
rnn = RNN
roi_pooling = ROIPooling
sequence_last = SequenceLast
sequence_mask = SequenceMask
sequence_reverse = SequenceReverse
slice = crop
softmax_activation = SoftmaxActivation
softmax_output = Softmax
spatial_transformer = SpatialTransformer
split = SliceChannel
stop_gradient = BlockGrad
subtract = broadcast_minus
sum_axis = sum
svm_output = SVMOutput
swapaxes = SwapAxis
true_divide = broadcast_div
trunc = fix
up_sampling = UpSampling
