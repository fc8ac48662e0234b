"""Convolution layers, in one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from hybridc.errors import CheckError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.nn.activations import Activation

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]


def per_axis(layer: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """A size for each spatial axis: ``value`` itself, or a number for all of them."""
    given = cast("Sequence[Any]", value if isinstance(value, list | tuple) else (value,) * rank)
    sizes = tuple(int(n) for n in given)
    if len(sizes) != rank:
        raise CheckError(f"{layer}: {name} must be a number or a list of {rank} ints, got {value!r}")
    return sizes


def check_layout(layer: str, layout: str, layouts: tuple[str, ...]) -> None:
    """Refuse a layout that the layer does not have."""
    if layout not in layouts:
        raise CheckError(f"{layer}: layout must be {' or '.join(map(repr, layouts))}, got {layout!r}")


class Convolving(HybridBlock):
    """activation(convolution(x, weight) + bias): the base of all convolution layers

    ``op_name`` is the operator of the convolution, ``options`` its attributes. The weight has the axes of ``layout``,
    with the output channels at N and the input channels of a group at C; at a transposed convolution the input
    channels are at N, the output channels of a group at C. ``in_channels=0`` is inferred from the first input.
    """

    LAYOUTS: ClassVar[tuple[str, ...]] = ()  # those that the layer has, the default first
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
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

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
        # COMPAT(mxnet): there the second and first axis of the weight, whatever the layout and the operator.
        inputs = sizes[options["layout"].index("N" if self.IS_TRANSPOSED else "C")] or None
        text = f"{inputs} -> {self._channels}, kernel_size={options['kernel']}, stride={options['stride']}"
        extra = {
            "padding": (options["pad"], (0,) * rank),
            "dilation": (options["dilate"], (1,) * rank),
            # COMPAT(mxnet): never shown there.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            self.LAYOUTS[0] if layout is None else layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


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
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            self.LAYOUTS[0] if layout is None else layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            adj=output_padding,
            **kwargs,
        )
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
