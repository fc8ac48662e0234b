"""``mx.gluon.contrib.cnn``: deformable convolutions as layers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

from hybridc.errors import CheckError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.nn.activations import Activation
from hybridc.gluon.nn.conv_layers import check_layout, per_axis
from hybridc.gluon.utils import show_defaults
from hybridc.ground.absent import absent as _absent

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class _DeformableConv(HybridBlock):
    """The base of both: a convolution gives the offsets of the samples of another.

    ``OFFSETS`` is how many numbers each sample takes: its offset, and with modulation its weight, too.

    Parameters
    ----------
    channels:
        The number of output channels.
    kernel_size:
        The size of the kernel: a number, or (height, width).
    strides:
        The step between two places of the kernel: a number, or one for each axis.
    padding:
        How many zeros are put at each end of an axis: a number, or one for each axis.
    dilation:
        The distance between elements that neighbours in the kernel meet: a number, or one for each axis.
    groups:
        The number of groups of channels, each convolved alone; it must divide the numbers of input, output and
        offset channels.
    num_deformable_group:
        The number of groups of input channels with offsets of their own.
    layout:
        The order of axes: "NCHW"; another is a CheckError.
    use_bias:
        Whether a bias is added.
    in_channels:
        The number of input channels; 0: it follows from the first input.
    activation:
        The name of a function of the result, as "relu"; None for none.
    weight_initializer:
        The initializer of the weight; None: that of ``initialize()``.
    bias_initializer:
        The initializer of the bias.
    offset_weight_initializer:
        The initializer of the weight of the convolution that gives the offsets; by default 0: no offsets at first.
    offset_bias_initializer:
        The initializer of the bias of that convolution.
    offset_use_bias:
        Whether that convolution has a bias.
    op_name:
        For programs written for MXNet: the class says which operator it is.
    adj:
        For programs written for MXNet: it must be None.
    """

    OFFSETS: ClassVar[int] = 2

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        show_defaults(cls, op_name=cls.__name__)

    def __init__(
        self,
        channels: int,
        kernel_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str | None = None,
        adj: Any = None,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        layer = type(self).__name__
        check_layout(layer, layout, ("NCHW",))
        if adj:
            raise CheckError(f"{layer}: adj={adj!r} is of transposed convolutions only; leave it out")
        self._channels = channels
        self._in_channels = in_channels
        kernel = per_axis(layer, "kernel_size", kernel_size, 2)
        options: dict[str, Any] = {
            "kernel": kernel,
            "stride": per_axis(layer, "strides", strides, 2),
            "dilate": per_axis(layer, "dilation", dilation, 2),
            "pad": per_axis(layer, "padding", padding, 2),
            "num_group": groups,
            "layout": layout,
        }
        self._samples = num_deformable_group * kernel[0] * kernel[1]
        offsets = self.OFFSETS * self._samples
        for what, count in (("channels", channels), ("in_channels", in_channels), ("offset channels", offsets)):
            if groups < 1 or count % groups:
                raise CheckError(f"{layer}: {what} must be a multiple of groups, got {count} and {groups}")
        self._kwargs_offset = {**options, "num_filter": offsets, "no_bias": not offset_use_bias}
        self._kwargs_deformable_conv = {
            **options,
            "num_filter": channels,
            "no_bias": not use_bias,
            "num_deformable_group": num_deformable_group,
        }
        shape = (in_channels // groups, *kernel)
        convolutions = {
            "offset": (offsets, offset_weight_initializer, offset_bias_initializer, offset_use_bias),
            "deformable_conv": (channels, weight_initializer, bias_initializer, use_bias),
        }
        self.offset_bias: Any = None
        self.deformable_conv_bias: Any = None
        with self.name_scope():
            for name in self._in_order(list(convolutions)):
                filters, weight_init, bias_init, has_bias = convolutions[name]
                self._parameter(f"{name}_weight", (filters, *shape), weight_init)
                if has_bias:
                    self._parameter(f"{name}_bias", (filters,), bias_init)
            self.act = Activation(activation, prefix=f"{activation}_") if activation else None

    def _in_order(self, names: list[str]) -> list[str]:
        """The two convolutions in the order in which MXNet makes their parameters."""
        return names

    def _parameter(self, name: str, shape: tuple[int, ...], init: Any) -> None:
        setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        offset_weight: Any = None,
        deformable_conv_weight: Any = None,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        """The layer's output."""
        arrays = (x, offset_weight) if offset_bias is None else (x, offset_weight, offset_bias)
        offset = F.Convolution(*arrays, **self._kwargs_offset)
        bias = {} if deformable_conv_bias is None else {"bias": deformable_conv_bias}
        y = self._deformed(F, x, offset, name="fwd", weight=deformable_conv_weight, **bias)
        return y if self.act is None else self.act(y)

    def _deformed(self, F: Any, x: Any, offset: Any, **arrays: Any) -> Any:
        """The convolution at the samples that ``offset`` says."""
        return F.contrib.DeformableConvolution(data=x, offset=offset, **arrays, **self._kwargs_deformable_conv)

    def __repr__(self) -> str:
        options = self._kwargs_deformable_conv
        shape = self.params.get("deformable_conv_weight").shape or (self._channels, 0)
        text = f"{shape[1] or None} -> {shape[0]}, kernel_size={options['kernel']}, stride={options['stride']}"
        extra = {
            "padding": (options["pad"], (0, 0)),
            "dilation": (options["dilate"], (1, 1)),
            "groups": (options["num_group"], 1),
            "bias": (not options["no_bias"], True),
        }
        text += "".join(f", {name}={value}" for name, (value, default) in extra.items() if value != default)
        return f"{type(self).__name__}({text}{'' if self.act is None else f', {self.act}'})"


class DeformableConvolution(_DeformableConv):
    """A convolution whose kernel meets x at places that are moved, as another convolution says (Dai et al. 2017)

    (N, C, H, W) → (N, channels, H', W'), sizes as of :class:`hybridc.gluon.nn.Conv2D`. Each element of the kernel has
    an offset of its own at each place, a number of rows and one of columns, with fractions; between elements x is
    interpolated.

    Examples
    --------
    >>> layer = gluon.contrib.cnn.DeformableConvolution(8, kernel_size=(3, 3), padding=(1, 1))
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 3, 16, 16))).shape
    (2, 8, 16, 16)

    The convolution that gives the offsets has two channels for each of the 9 elements of the kernel:

    >>> layer.offset_weight.shape
    (18, 3, 3, 3)
    """

    def _alias(self) -> str:
        return "deformable_conv"


class ModulatedDeformableConvolution(_DeformableConv):
    """:class:`DeformableConvolution` that also weighs each sample of x, by a number between 0 and 2 (Zhu et al. 2018)

    The weight is ``2 * sigmoid(z)``, where z comes, as the offsets, from the other convolution of x.

    Examples
    --------
    >>> layer = gluon.contrib.cnn.ModulatedDeformableConvolution(8, kernel_size=(3, 3), padding=(1, 1))
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 3, 16, 16))).shape
    (2, 8, 16, 16)

    Two offsets and a weight for each of the 9 elements of the kernel:

    >>> layer.offset_weight.shape
    (27, 3, 3, 3)
    """

    OFFSETS = 3

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def _in_order(self, names: list[str]) -> list[str]:
        return names[::-1]

    def _deformed(self, F: Any, x: Any, offset: Any, **arrays: Any) -> Any:
        moved = F.slice_axis(offset, axis=1, begin=0, end=2 * self._samples)
        mask = F.sigmoid(F.slice_axis(offset, axis=1, begin=2 * self._samples, end=None)) * 2
        return F.contrib.ModulatedDeformableConvolution(
            data=x, offset=moved, mask=mask, **arrays, **self._kwargs_deformable_conv
        )


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name == "conv_layers":  # MXNet's file of these layers
            return sys.modules[__name__]
        raise _absent("mx.gluon.contrib.cnn", name, "layer", globals())
