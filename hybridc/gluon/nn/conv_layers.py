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
        The order of axes: N are examples, C channels, D depth, H height, W width. "NCHW" or, channels last, "NHWC";
        likewise with one axis, or three. By default channels come first.
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
        The size of the kernel along each axis, a number or a tuple.
    strides:
        The step between places of the kernel.
    padding:
        How many zeros are beyond each end of an axis.
    output_padding:
        How many elements a transposed convolution has more at the end of an axis.
    dilation:
        The distance between elements that the kernel meets.
    groups:
        The number of groups into which channels are divided; each group is convolved alone.
    activation:
        The name of an activation function of the result, as "relu"; None for none.
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
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
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
    """activation(convolution(x, weight) + bias): (N, C, W) → (N, channels, W')

    W' = floor((W + 2*padding - dilation*(kernel_size - 1) - 1) / strides) + 1, weight (channels, C / groups,
    kernel_size).
    """

    LAYOUTS = ("NCW",)


class Conv2D(_Conv):
    """activation(convolution(x, weight) + bias): (N, C, H, W) → (N, channels, H', W')

    H' = floor((H + 2*padding - dilation*(kernel_size - 1) - 1) / strides) + 1 and likewise W', weight (channels,
    C / groups, *kernel_size). With ``layout='NHWC'`` both have the channels last.
    """

    LAYOUTS = ("NCHW", "NHWC")


class Conv3D(_Conv):
    """activation(convolution(x, weight) + bias): (N, C, D, H, W) → (N, channels, D', H', W')

    D' = floor((D + 2*padding - dilation*(kernel_size - 1) - 1) / strides) + 1 and so on, weight (channels, C / groups,
    *kernel_size). With ``layout='NDHWC'`` both have the channels last.
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class Conv1DTranspose(_ConvTranspose):
    """activation(transposed convolution(x, weight) + bias): (N, C, W) → (N, channels, W')

    W' = (W - 1)*strides - 2*padding + dilation*(kernel_size - 1) + 1 + output_padding, weight (C, channels / groups,
    kernel_size).
    """

    LAYOUTS = ("NCW",)


class Conv2DTranspose(_ConvTranspose):
    """activation(transposed convolution(x, weight) + bias): (N, C, H, W) → (N, channels, H', W')

    H' = (H - 1)*strides - 2*padding + dilation*(kernel_size - 1) + 1 + output_padding and likewise W', weight (C,
    channels / groups, *kernel_size). With ``layout='NHWC'`` both have the channels last.
    """

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DTranspose(_ConvTranspose):
    """activation(transposed convolution(x, weight) + bias): (N, C, D, H, W) → (N, channels, D', H', W')

    D' = (D - 1)*strides - 2*padding + dilation*(kernel_size - 1) + 1 + output_padding and so on, weight (C,
    channels / groups, *kernel_size). With ``layout='NDHWC'`` both have the channels last.
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class _Pooling(HasLayouts, HybridBlock):
    """``F.Pooling`` with these options: the base of all pooling layers.

    Parameters
    ----------
    pool_size:
        The size of windows along each axis, a number or a tuple.
    strides:
        The step between windows; by default their size.
    padding:
        How many elements are beyond each end of an axis.
    ceil_mode:
        Whether windows that reach beyond the end count, too.
    count_include_pad:
        Whether the average counts elements beyond the ends, as zeros.
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

    W' = floor((W + 2*padding - pool_size) / strides) + 1, rounded up with ``ceil_mode``; ``strides=None`` is
    ``pool_size``.
    """

    LAYOUTS = ("NCW", "NWC")


class MaxPool2D(_MaxPool):
    """The largest element of each window: (N, C, H, W) → (N, C, H', W')

    H' = floor((H + 2*padding - pool_size) / strides) + 1, rounded up with ``ceil_mode``, and likewise W';
    ``strides=None`` is ``pool_size``.
    """

    LAYOUTS = ("NCHW", "NHWC")


class MaxPool3D(_Pooling):
    """The largest element of each window: (N, C, D, H, W) → (N, C, D', H', W')

    D' = floor((D + 2*padding - pool_size) / strides) + 1, rounded up with ``ceil_mode``, and so on; ``strides=None``
    is ``pool_size``.
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

    W' as of MaxPool1D. Without ``count_include_pad`` the padding does not count.
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

    H' and W' as of MaxPool2D. Without ``count_include_pad`` the padding does not count.
    """

    LAYOUTS = ("NCHW", "NHWC")


class AvgPool3D(_AvgPool):
    """The mean of each window: (N, C, D, H, W) → (N, C, D', H', W')

    D', H' and W' as of MaxPool3D. Without ``count_include_pad`` the padding does not count.
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class GlobalMaxPool1D(_GlobalPool):
    """The largest element of each channel: (N, C, W) → (N, C, 1)"""

    LAYOUTS = ("NCW", "NWC")
    POOL_TYPE = "max"


class GlobalMaxPool2D(_GlobalPool):
    """The largest element of each channel: (N, C, H, W) → (N, C, 1, 1)"""

    LAYOUTS = ("NCHW", "NHWC")
    POOL_TYPE = "max"


class GlobalMaxPool3D(_GlobalPool):
    """The largest element of each channel: (N, C, D, H, W) → (N, C, 1, 1, 1)"""

    LAYOUTS = ("NCDHW", "NDHWC")
    POOL_TYPE = "max"


class GlobalAvgPool1D(_GlobalPool):
    """The mean of each channel: (N, C, W) → (N, C, 1)"""

    LAYOUTS = ("NCW", "NWC")
    POOL_TYPE = "avg"


class GlobalAvgPool2D(_GlobalPool):
    """The mean of each channel: (N, C, H, W) → (N, C, 1, 1)"""

    LAYOUTS = ("NCHW", "NHWC")
    POOL_TYPE = "avg"


class GlobalAvgPool3D(_GlobalPool):
    """The mean of each channel: (N, C, D, H, W) → (N, C, 1, 1, 1)"""

    LAYOUTS = ("NCDHW", "NDHWC")
    POOL_TYPE = "avg"


class ReflectionPad2D(HybridBlock):
    """x with its rows and columns repeated in reverse around it: (N, C, H, W) → (N, C, H + 2*padding, W + 2*padding)

    ``padding`` is a number, or ``F.pad(pad_width=...)``: eight numbers of which the first four are 0.

    Parameters
    ----------
    padding:
        How many elements are added at each end of height and width, a number or the eight of ``pad_width``.
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
