"""Convolution and pooling layers in one to three dimensions, and padding by reflection: MXNet has them in one file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack, cast

from hybridc.errors import CheckError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.naming import BlockOptions
from hybridc.gluon.nn.activations import Activation
from hybridc.gluon.utils import show_defaults

__all__ = [
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "ReflectionPad2D",
]


def per_axis(layer: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """A size for each spatial axis: ``value`` itself, or a number for all of them."""
    given = cast("Sequence[Any]", value if isinstance(value, list | tuple) else (value,) * rank)
    if len(given) != rank or any(isinstance(n, str) for n in given):
        raise CheckError(f"{layer}: {name} must be a number or a list of {rank} ints, got {value!r}")
    return tuple(int(n) for n in given)


def check_layout(layer: str, layout: str, layouts: tuple[str, ...]) -> None:
    """Refuse a layout that the layer does not have."""
    if layout not in layouts:
        raise CheckError(f"{layer}: layout must be {' or '.join(map(repr, layouts))}, got {layout!r}")


class HasLayouts:
    """Layers with a choice of layouts: their signatures show the default, the first of them.

    Parameters
    ----------
    layout:
        The order of axes: N are examples, C channels, D depth, H height, W width. By default channels come second,
        as in "NCHW"; "NHWC" has them last, and likewise "NWC" and "NDHWC". Conv1D and Conv1DTranspose have "NCW"
        only.
    """

    LAYOUTS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.LAYOUTS:
            show_defaults(cls, layout=cls.LAYOUTS[0], conv_layout=cls.LAYOUTS[0])

    def _layout_of(self, layout: str | None) -> str:
        """The layout, by default the first."""
        return self.LAYOUTS[0] if layout is None else layout


class Convolving(HasLayouts, HybridBlock):
    """activation(convolution(x, weight) + bias): the base of all convolution layers

    ``op_name`` is the operator of the convolution. The weight has the axes of ``layout``,
    with the output channels at N and the input channels of a group at C; at a transposed convolution the input
    channels are at N, the output channels of a group at C. ``in_channels=0`` is inferred from the first input.

    Parameters
    ----------
    channels:
        The number of output channels.
    kernel_size:
        The size of the kernel along each axis: a number for all, or a tuple.
    strides:
        The step between two places of the kernel: a number, or a tuple with one for each axis.
    padding:
        How many zeros are put at each end of an axis: a number, or a tuple with one for each axis.
    output_padding:
        How many elements the result has more at the end of an axis, to choose among the sizes that strides leave
        open; less than the stride.
    dilation:
        The distance between the elements of the input that neighbours in the kernel meet; 1: they are neighbours.
    groups:
        The number of groups of channels, each convolved alone; it must divide the numbers of input and output
        channels. ``groups=in_channels`` is a depthwise convolution.
    activation:
        The name of a function of the result, one of :class:`Activation`, as "relu"; None for none.
    use_bias:
        Whether a bias is added.
    weight_initializer:
        The initializer of the weight; by default that of ``initialize()``.
    bias_initializer:
        The initializer of the bias.
    in_channels:
        The number of input channels; 0: it follows from the first input.
    """

    OPERATOR: ClassVar[str] = "Convolution"
    IS_TRANSPOSED: ClassVar[bool] = False

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        layout: str,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        op_name: str | None = None,
        adj: Any = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        layer = type(self).__name__
        check_layout(layer, layout, self.LAYOUTS)
        rank = len(layout) - 2
        self._channels = channels
        self._in_channels = in_channels
        self._op_name = op_name or self.OPERATOR
        self._kwargs: dict[str, Any] = {
            "kernel": per_axis(layer, "kernel_size", kernel_size, rank),
            "stride": per_axis(layer, "strides", strides, rank),
            "dilate": per_axis(layer, "dilation", dilation, rank),
            "pad": per_axis(layer, "padding", padding, rank),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if adj is not None:
            self._kwargs["adj"] = per_axis(layer, "output_padding", adj, rank)
        for what, count in (("channels", channels), ("in_channels", in_channels)):
            if groups < 1 or count % groups:
                raise CheckError(f"{layer}: {what} must be a multiple of groups, got {count} and {groups}")
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=self._weight_shape(), init=weight_initializer, allow_deferred_init=True
            )
            self.bias = None
            if use_bias:
                self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer, allow_deferred_init=True)
            self.act = None if activation is None else Activation(activation, prefix=f"{activation}_")

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self._channels, self._in_channels
        if self.IS_TRANSPOSED:
            first, second = second, first
        sizes = {"N": first, "C": second // self._kwargs["num_group"]}
        kernel = iter(self._kwargs["kernel"])
        return tuple(sizes[axis] if axis in sizes else next(kernel) for axis in self._kwargs["layout"])

    def _alias(self) -> str:
        return "conv"

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """The layer's output."""
        arrays = (x, weight) if bias is None else (x, weight, bias)
        y = getattr(F, self._op_name)(*arrays, name="fwd", **self._kwargs)
        return y if self.act is None else self.act(y)

    def __repr__(self) -> str:
        options, rank = self._kwargs, len(self._kwargs["kernel"])
        sizes: Any = self.weight.shape or self._weight_shape()
        # COMPAT(mxnet): there wrong channels are shown of transposed convolutions and those with channels last.
        inputs = sizes[options["layout"].index("N" if self.IS_TRANSPOSED else "C")] or None
        text = f"{inputs} -> {self._channels}, kernel_size={options['kernel']}, stride={options['stride']}"
        extra = {
            "padding": (options["pad"], (0,) * rank),
            "dilation": (options["dilate"], (1,) * rank),
            # COMPAT(mxnet): output_padding is not shown there.
            "output_padding": (options.get("adj", (0,) * rank), (0,) * rank),
            "groups": (options["num_group"], 1),
            "bias": (self.bias is not None, True),
        }
        text += "".join(f", {name}={value}" for name, (value, default) in extra.items() if value != default)
        return f"{type(self).__name__}({text}{'' if self.act is None else f', {self.act}'})"


class _Conv(Convolving):
    """The arguments that Conv1D, Conv2D and Conv3D share."""

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, self._layout_of(layout), in_channels, activation,
            use_bias, weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip


class _ConvTranspose(Convolving):
    """The arguments that Conv1DTranspose, Conv2DTranspose and Conv3DTranspose share."""

    OPERATOR = "Deconvolution"
    IS_TRANSPOSED = True

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, self._layout_of(layout), in_channels, activation,
            use_bias, weight_initializer, bias_initializer, adj=output_padding, **kwargs,
        )  # fmt: skip
        self.outpad = self._kwargs["adj"]


class Conv1D(_Conv):
    """``activation(convolution(x, weight) + bias)``: (N, C, W) → (N, channels, W')

    W' is ``floor((W + 2*padding - dilation*(kernel_size - 1) - 1) / strides) + 1``; weight (channels, C / groups,
    kernel_size), bias (channels,). The kernel is not flipped.

    Examples
    --------
    >>> layer = nn.Conv1D(1, kernel_size=3, weight_initializer="ones")
    >>> layer.initialize()
    >>> x = mx.nd.array([[[1, 2, 3, 4, 5]]])
    >>> layer(x)
    [[[ 6.  9. 12.]]]
    <NDArray 1x1x3 @cpu(0)>

    With ``padding=1`` a kernel of 3 keeps the length:

    >>> layer = nn.Conv1D(1, kernel_size=3, padding=1, weight_initializer="ones")
    >>> layer.initialize()
    >>> layer(x)
    [[[ 3.  6.  9. 12.  9.]]]
    <NDArray 1x1x5 @cpu(0)>
    """

    LAYOUTS = ("NCW",)


class Conv2D(_Conv):
    """``activation(convolution(x, weight) + bias)``: (N, C, H, W) → (N, channels, H', W')

    H' is ``floor((H + 2*padding - dilation*(kernel_size - 1) - 1) / strides) + 1``, and W' likewise; weight (channels,
    C / groups, kernel height, kernel width), bias (channels,). The kernel is not flipped. With ``layout='NHWC'`` x, the
    result and the weight have their channels last.

    Examples
    --------
    >>> layer = nn.Conv2D(8, kernel_size=3, strides=2, padding=1, activation="relu")
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 3, 32, 32))).shape
    (2, 8, 16, 16)
    >>> layer.weight.shape
    (8, 3, 3, 3)

    A depthwise convolution, which keeps the size:

    >>> layer = nn.Conv2D(3, kernel_size=5, padding=2, groups=3, in_channels=3)
    >>> layer.weight.shape
    (3, 1, 5, 5)
    """

    LAYOUTS = ("NCHW", "NHWC")


class Conv3D(_Conv):
    """``activation(convolution(x, weight) + bias)``: (N, C, D, H, W) → (N, channels, D', H', W')

    D' is ``floor((D + 2*padding - dilation*(kernel_size - 1) - 1) / strides) + 1``, and H' and W' likewise; weight
    (channels, C / groups, kernel depth, kernel height, kernel width), bias (channels,). The kernel is not flipped. With
    ``layout='NDHWC'`` x, the result and the weight have their channels last.

    Examples
    --------
    >>> layer = nn.Conv3D(4, kernel_size=(1, 3, 3), padding=(0, 1, 1), strides=(1, 2, 2))
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 8, 16, 16))).shape
    (1, 4, 8, 8, 8)
    >>> layer.weight.shape
    (4, 2, 1, 3, 3)
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class Conv1DTranspose(_ConvTranspose):
    """``activation(transposed convolution(x, weight) + bias)``: (N, C, W) → (N, channels, W')

    Each element of x adds the kernel, times itself, to the result, at places ``strides`` apart: what the backward of
    :class:`Conv1D` does. W' is ``(W - 1)*strides - 2*padding + dilation*(kernel_size - 1) + 1 + output_padding``;
    weight (C, channels / groups, kernel_size), bias (channels,).

    Examples
    --------
    >>> layer = nn.Conv1DTranspose(1, kernel_size=3, strides=2, weight_initializer="ones")
    >>> layer.initialize()
    >>> layer(mx.nd.array([[[1, 2, 3]]]))
    [[[1. 1. 3. 2. 5. 3. 3.]]]
    <NDArray 1x1x7 @cpu(0)>
    """

    LAYOUTS = ("NCW",)


class Conv2DTranspose(_ConvTranspose):
    """``activation(transposed convolution(x, weight) + bias)``: (N, C, H, W) → (N, channels, H', W')

    Each element of x adds the kernel, times itself, to the result, at places ``strides`` apart: what the backward of
    :class:`Conv2D` does. H' is ``(H - 1)*strides - 2*padding + dilation*(kernel_size - 1) + 1 + output_padding``, and
    W' likewise; weight (C, channels / groups, kernel height, kernel width), bias (channels,). With ``layout='NHWC'`` x,
    the result and the weight have their channels last.

    Examples
    --------
    >>> layer = nn.Conv2DTranspose(8, kernel_size=4, strides=2, padding=1)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 3, 16, 16))).shape
    (1, 8, 32, 32)
    >>> layer.weight.shape
    (3, 8, 4, 4)
    """

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DTranspose(_ConvTranspose):
    """``activation(transposed convolution(x, weight) + bias)``: (N, C, D, H, W) → (N, channels, D', H', W')

    Each element of x adds the kernel, times itself, to the result, at places ``strides`` apart: what the backward of
    :class:`Conv3D` does. D' is ``(D - 1)*strides - 2*padding + dilation*(kernel_size - 1) + 1 + output_padding``, and
    H' and W' likewise; weight (C, channels / groups, kernel depth, kernel height, kernel width), bias (channels,). With
    ``layout='NDHWC'`` x, the result and the weight have their channels last.

    Examples
    --------
    >>> layer = nn.Conv3DTranspose(4, kernel_size=3, strides=2, padding=1, output_padding=1)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 2, 4, 8, 8))).shape
    (1, 4, 8, 16, 16)
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class _Pooling(HasLayouts, HybridBlock):
    """``F.Pooling`` with these options: the base of all pooling layers.

    Parameters
    ----------
    pool_size:
        The size of windows along each axis: a number for all, or a tuple.
    strides:
        The step between two windows: a number, or a tuple with one for each axis; None: the size of windows.
    padding:
        How many elements are put at each end of an axis, a number or a tuple: of a maximum they are never the
        largest, of a mean they are 0.
    ceil_mode:
        Whether the size of the result is rounded up, so that the last windows may reach beyond the end.
    count_include_pad:
        Whether the mean counts the padding, as zeros, or is that of the elements of x alone.
    """

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: Any,
        ceil_mode: bool,
        global_pool: bool,
        pool_type: str,
        layout: str,
        count_include_pad: bool | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        layer = type(self).__name__
        check_layout(layer, layout, self.LAYOUTS)
        rank = len(layout) - 2
        kernel = per_axis(layer, "pool_size", pool_size, rank)
        self._kwargs: dict[str, Any] = {
            "kernel": kernel,
            "stride": kernel if strides is None else per_axis(layer, "strides", strides, rank),
            "pad": per_axis(layer, "padding", padding, rank),
            "global_pool": global_pool,
            "pool_type": pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The layer's output."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return (
            "{0}(size={kernel}, stride={stride}, padding={pad}, ceil_mode={1}, global_pool={global_pool}, "
            "pool_type={pool_type}, layout={layout})"
        ).format(type(self).__name__, self._kwargs["pooling_convention"] == "full", **self._kwargs)


class _MaxPool(_Pooling):
    """The arguments that MaxPool1D and MaxPool2D share."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, "max", self._layout_of(layout), **kwargs)


class _AvgPool(_Pooling):
    """The arguments that AvgPool2D and AvgPool3D share."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            pool_size, strides, padding, ceil_mode, False, "avg", self._layout_of(layout), count_include_pad, **kwargs
        )


class _GlobalPool(_Pooling):
    """The argument that all global pooling layers share."""

    POOL_TYPE: ClassVar[str] = ""

    def __init__(self, layout: str | None = None, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(1, None, 0, True, True, self.POOL_TYPE, self._layout_of(layout), **kwargs)


class MaxPool1D(_MaxPool):
    """The largest element of each window: (N, C, W) → (N, C, W')

    W' is ``floor((W + 2*padding - pool_size) / strides) + 1``; with ``ceil_mode`` it is rounded up.

    Examples
    --------
    >>> x = mx.nd.array([[[1, 5, 2, 4, 3]]])
    >>> nn.MaxPool1D()(x)
    [[[5. 4.]]]
    <NDArray 1x1x2 @cpu(0)>
    >>> nn.MaxPool1D(ceil_mode=True)(x)
    [[[5. 4. 3.]]]
    <NDArray 1x1x3 @cpu(0)>
    """

    LAYOUTS = ("NCW", "NWC")


class MaxPool2D(_MaxPool):
    """The largest element of each window: (N, C, H, W) → (N, C, H', W')

    H' is ``floor((H + 2*padding - pool_size) / strides) + 1``, with ``ceil_mode`` rounded up, and W' likewise.

    Examples
    --------
    >>> x = mx.nd.arange(16).reshape((1, 1, 4, 4))
    >>> nn.MaxPool2D()(x)
    [[[[ 5.  7.]
       [13. 15.]]]]
    <NDArray 1x1x2x2 @cpu(0)>
    >>> nn.MaxPool2D(pool_size=3, strides=2, padding=1)(mx.nd.ones((2, 8, 32, 32))).shape
    (2, 8, 16, 16)
    """

    LAYOUTS = ("NCHW", "NHWC")


class MaxPool3D(_Pooling):
    """The largest element of each window: (N, C, D, H, W) → (N, C, D', H', W')

    D' is ``floor((D + 2*padding - pool_size) / strides) + 1``, with ``ceil_mode`` rounded up, and H' and W' likewise.

    Examples
    --------
    >>> nn.MaxPool3D(pool_size=(1, 2, 2))(mx.nd.ones((1, 4, 8, 16, 16))).shape
    (1, 4, 8, 8, 8)
    """

    LAYOUTS = ("NCDHW", "NDHWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class AvgPool1D(_Pooling):
    """The mean of each window: (N, C, W) → (N, C, W')

    W' is that of :class:`MaxPool1D`.

    Examples
    --------
    >>> x = mx.nd.array([[[2, 4, 6]]])
    >>> nn.AvgPool1D(pool_size=3, strides=1, padding=1)(x)
    [[[2.        4.        3.3333333]]]
    <NDArray 1x1x3 @cpu(0)>
    >>> nn.AvgPool1D(pool_size=3, strides=1, padding=1, count_include_pad=False)(x)
    [[[3. 4. 5.]]]
    <NDArray 1x1x3 @cpu(0)>
    """

    LAYOUTS = ("NCW", "NWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class AvgPool2D(_AvgPool):
    """The mean of each window: (N, C, H, W) → (N, C, H', W')

    H' and W' are those of :class:`MaxPool2D`.

    Examples
    --------
    >>> nn.AvgPool2D()(mx.nd.arange(16).reshape((1, 1, 4, 4)))
    [[[[ 2.5  4.5]
       [10.5 12.5]]]]
    <NDArray 1x1x2x2 @cpu(0)>
    """

    LAYOUTS = ("NCHW", "NHWC")


class AvgPool3D(_AvgPool):
    """The mean of each window: (N, C, D, H, W) → (N, C, D', H', W')

    D', H' and W' are those of :class:`MaxPool3D`.

    Examples
    --------
    >>> nn.AvgPool3D(pool_size=2, ceil_mode=True)(mx.nd.ones((1, 4, 5, 16, 16))).shape
    (1, 4, 3, 8, 8)
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class GlobalMaxPool1D(_GlobalPool):
    """The largest element of each channel: (N, C, W) → (N, C, 1)

    Examples
    --------
    >>> nn.GlobalMaxPool1D()(mx.nd.array([[[1, 5, 2], [7, 3, 4]]]))
    [[[5.]
      [7.]]]
    <NDArray 1x2x1 @cpu(0)>
    """

    LAYOUTS = ("NCW", "NWC")
    POOL_TYPE = "max"


class GlobalMaxPool2D(_GlobalPool):
    """The largest element of each channel: (N, C, H, W) → (N, C, 1, 1)

    Examples
    --------
    >>> nn.GlobalMaxPool2D()(mx.nd.arange(16).reshape((1, 1, 4, 4)))
    [[[[15.]]]]
    <NDArray 1x1x1x1 @cpu(0)>
    >>> nn.GlobalMaxPool2D(layout="NHWC")(mx.nd.ones((2, 32, 32, 8))).shape
    (2, 1, 1, 8)
    """

    LAYOUTS = ("NCHW", "NHWC")
    POOL_TYPE = "max"


class GlobalMaxPool3D(_GlobalPool):
    """The largest element of each channel: (N, C, D, H, W) → (N, C, 1, 1, 1)

    Examples
    --------
    >>> nn.GlobalMaxPool3D()(mx.nd.ones((2, 8, 4, 16, 16))).shape
    (2, 8, 1, 1, 1)
    """

    LAYOUTS = ("NCDHW", "NDHWC")
    POOL_TYPE = "max"


class GlobalAvgPool1D(_GlobalPool):
    """The mean of each channel: (N, C, W) → (N, C, 1)

    Examples
    --------
    >>> nn.GlobalAvgPool1D()(mx.nd.array([[[1, 5, 3], [7, 3, 5]]]))
    [[[3.]
      [5.]]]
    <NDArray 1x2x1 @cpu(0)>
    """

    LAYOUTS = ("NCW", "NWC")
    POOL_TYPE = "avg"


class GlobalAvgPool2D(_GlobalPool):
    """The mean of each channel: (N, C, H, W) → (N, C, 1, 1)

    Examples
    --------
    >>> nn.GlobalAvgPool2D()(mx.nd.arange(16).reshape((1, 1, 4, 4)))
    [[[[7.5]]]]
    <NDArray 1x1x1x1 @cpu(0)>
    >>> nn.GlobalAvgPool2D()(mx.nd.ones((2, 512, 7, 7))).shape
    (2, 512, 1, 1)
    """

    LAYOUTS = ("NCHW", "NHWC")
    POOL_TYPE = "avg"


class GlobalAvgPool3D(_GlobalPool):
    """The mean of each channel: (N, C, D, H, W) → (N, C, 1, 1, 1)

    Examples
    --------
    >>> nn.GlobalAvgPool3D(layout="NDHWC")(mx.nd.ones((2, 4, 16, 16, 8))).shape
    (2, 1, 1, 1, 8)
    """

    LAYOUTS = ("NCDHW", "NDHWC")
    POOL_TYPE = "avg"


class ReflectionPad2D(HybridBlock):
    """x with its rows and columns mirrored around it: ``(N, C, H, W)`` → ``(N, C, H + 2*padding, W + 2*padding)``

    The outermost rows and columns are the mirrors, which are not repeated, so ``padding`` must be less than H and W.

    Parameters
    ----------
    padding:
        How many rows and columns are put at each end: a number, or eight as ``mx.nd.pad`` takes them, (0, 0, 0, 0,
        top, bottom, left, right).

    Examples
    --------
    >>> nn.ReflectionPad2D(1)(mx.nd.array([[[[1, 2, 3], [4, 5, 6]]]]))
    [[[[5. 4. 5. 6. 5.]
       [2. 1. 2. 3. 2.]
       [5. 4. 5. 6. 5.]
       [2. 1. 2. 3. 2.]]]]
    <NDArray 1x1x4x5 @cpu(0)>
    """

    def __init__(self, padding: Any = 0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        widths = (0, 0, 0, 0, padding, padding, padding, padding) if isinstance(padding, int) else tuple(padding)
        if len(widths) != 8:
            raise CheckError(f"ReflectionPad2D: padding must be a number or a tuple of 8 ints, got {padding!r}")
        self._padding = widths

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The padded input."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
