"""Cells whose transforms are convolutions, in one to three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from hybridc.errors import CheckError
from hybridc.gluon.nn.conv_layers import HasLayouts, check_layout, per_axis
from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell

__all__ = [
    "Conv1DRNNCell",
    "Conv2DRNNCell",
    "Conv3DRNNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "Conv1DGRUCell",
    "Conv2DGRUCell",
    "Conv3DGRUCell",
]


class _ConvCell(HasLayouts, HybridRecurrentCell):
    """The base of all: ``GATES`` convolutions of the inputs, and as many of the last output

    ``input_shape`` is that of one row's step, with its axes in the order of ``conv_layout`` without N. Convolutions of
    the output keep its sizes: their kernels have odd sizes.
    """

    GATES: ClassVar[int] = 1
    STATES: ClassVar[int] = 1
    i2h_weight: Any
    h2h_weight: Any
    i2h_bias: Any
    h2h_bias: Any

    def __init__(
        self,
        input_shape: tuple[int, ...],
        hidden_channels: int,
        i2h_kernel: Any,
        h2h_kernel: Any,
        i2h_pad: Any = 0,
        i2h_dilate: Any = 1,
        h2h_dilate: Any = 1,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        name, layout = type(self).__name__, self._layout_of(conv_layout)
        check_layout(name, layout, self.LAYOUTS)
        rank = len(layout) - 2
        if len(input_shape) != rank + 1:
            raise CheckError(
                f"{name}: input_shape must have the {rank + 1} axes {layout[1:]}, without the batch, got {input_shape}"
            )
        self._hidden_channels = hidden_channels
        self._input_shape = tuple(input_shape)
        self._conv_layout = layout
        self._activation = activation
        self._stride = (1,) * rank
        self._i2h_kernel = per_axis(name, "i2h_kernel", i2h_kernel, rank)
        self._i2h_pad = per_axis(name, "i2h_pad", i2h_pad, rank)
        self._i2h_dilate = per_axis(name, "i2h_dilate", i2h_dilate, rank)
        self._h2h_kernel = per_axis(name, "h2h_kernel", h2h_kernel, rank)
        self._h2h_dilate = per_axis(name, "h2h_dilate", h2h_dilate, rank)
        if any(k % 2 == 0 for k in self._h2h_kernel):
            raise CheckError(f"{name}: Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel, strict=True))
        self._channel_axis = layout.index("C")
        self._in_channels = input_shape[self._channel_axis - 1]
        self._state_shape = self._shape(self._hidden_channels, self._output_sizes())
        filters = self.GATES * hidden_channels
        i2h, h2h = self._shape(self._in_channels, self._i2h_kernel), self._shape(hidden_channels, self._h2h_kernel)
        self._parameter("i2h_weight", (filters, *i2h), i2h_weight_initializer)
        self._parameter("h2h_weight", (filters, *h2h), h2h_weight_initializer)
        self._parameter("i2h_bias", (filters,), i2h_bias_initializer)
        self._parameter("h2h_bias", (filters,), h2h_bias_initializer)

    def _shape(self, channels: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Channels and sizes in the order of the layout, without its first axis."""
        return (channels, *sizes) if self._channel_axis == 1 else (*sizes, channels)

    def _output_sizes(self) -> tuple[int, ...]:
        """The sizes of the convolved inputs; 0 where the inputs' are unknown."""
        sizes = [n for i, n in enumerate(self._input_shape, 1) if i != self._channel_axis]
        options = zip(sizes, self._i2h_kernel, self._i2h_pad, self._i2h_dilate, strict=True)
        return tuple(n + 2 * p - d * (k - 1) if n else 0 for n, k, p, d in options)

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """The states, which have the shape of the output."""
        shape = (batch_size, *self._state_shape)
        return [{"shape": shape, "__layout__": self._conv_layout} for _ in range(self.STATES)]

    def _transforms(
        self, F: Any, inputs: Any, output: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> tuple[Any, Any, str]:
        """All gates' transforms of the inputs and of the last output, and the prefix of this step's names."""
        prefix = f"t{vars(self)['_counter']}_"
        options: dict[str, Any] = {
            "num_filter": self.GATES * self._hidden_channels,
            "stride": self._stride,
            "layout": self._conv_layout,
        }
        i2h = F.Convolution(
            *(inputs, i2h_weight, i2h_bias),
            kernel=self._i2h_kernel,
            pad=self._i2h_pad,
            dilate=self._i2h_dilate,
            name=prefix + "i2h",
            **options,
        )
        h2h = F.Convolution(
            *(output, h2h_weight, h2h_bias),
            kernel=self._h2h_kernel,
            pad=self._h2h_pad,
            dilate=self._h2h_dilate,
            name=prefix + "h2h",
            **options,
        )
        return i2h, h2h, prefix

    def __repr__(self) -> str:
        filters = self.i2h_weight.shape[0]
        sizes = f"{self._in_channels or None} -> {filters}"
        return f"{type(self).__name__}({sizes}, {self._activation}, {self._conv_layout})"


class _ConvRNNCell(_ConvCell):
    """activation(convolved inputs + convolved output)"""

    def _alias(self) -> str:
        return "conv_rnn"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """The output, which is also the state."""
        (output,) = self._states(inputs, states)
        i2h, h2h, prefix = self._transforms(F, inputs, output, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        output = self._get_activation(F, F.elemwise_add(i2h, h2h), self._activation, name=prefix + "out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    """The step of an LSTM with convolutions (Shi et al. 2015)."""

    GATES = 4
    STATES = 2

    def _alias(self) -> str:
        return "conv_lstm"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """The output, and the states: it and the memory."""
        output, memory = self._states(inputs, states)
        i2h, h2h, prefix = self._transforms(F, inputs, output, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        total = F.elemwise_add(i2h, h2h)
        gates = F.SliceChannel(total, num_outputs=4, name=prefix + "slice", axis=self._channel_axis)
        i = F.Activation(gates[0], act_type="sigmoid", name=prefix + "i")
        f = F.Activation(gates[1], act_type="sigmoid", name=prefix + "f")
        g = self._get_activation(F, gates[2], self._activation, name=prefix + "c")
        o = F.Activation(gates[3], act_type="sigmoid", name=prefix + "o")
        memory = F.elemwise_add(F.elemwise_mul(f, memory), F.elemwise_mul(i, g), name=prefix + "state")
        output = F.elemwise_mul(o, self._get_activation(F, memory, self._activation), name=prefix + "out")
        return output, [output, memory]


class _ConvGRUCell(_ConvCell):
    """The step of gated recurrent units with convolutions."""

    GATES = 3

    def _alias(self) -> str:
        return "conv_gru"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """The output, which is also the state."""
        (output,) = self._states(inputs, states)
        i2h, h2h, prefix = self._transforms(F, inputs, output, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        axis = self._channel_axis
        i2h_r, i2h_z, i2h_n = F.SliceChannel(i2h, num_outputs=3, name=prefix + "i2h_slice", axis=axis)
        h2h_r, h2h_z, h2h_n = F.SliceChannel(h2h, num_outputs=3, name=prefix + "h2h_slice", axis=axis)
        r = F.Activation(F.elemwise_add(i2h_r, h2h_r), act_type="sigmoid", name=prefix + "r_act")
        z = F.Activation(F.elemwise_add(i2h_z, h2h_z), act_type="sigmoid", name=prefix + "z_act")
        total = F.elemwise_add(i2h_n, F.elemwise_mul(r, h2h_n))
        n = self._get_activation(F, total, self._activation, name=prefix + "h_act")
        output = F.elemwise_add(F.elemwise_mul(1.0 - z, n), F.elemwise_mul(z, output), name=prefix + "out")
        return output, [output]


class Conv1DRNNCell(_ConvRNNCell):
    """activation(convolution(inputs) + convolution(output)): a step of (N, C, W) → (N, hidden_channels, W')."""

    LAYOUTS = ("NCW", "NWC")


class Conv2DRNNCell(_ConvRNNCell):
    """activation(convolution(inputs) + convolution(output)): a step of (N, C, H, W) → (N, hidden_channels, H', W')."""

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DRNNCell(_ConvRNNCell):
    """activation(convolution(inputs) + convolution(output)), with steps of (N, C, D, H, W)."""

    LAYOUTS = ("NCDHW", "NDHWC")


class Conv1DLSTMCell(_ConvLSTMCell):
    """An LSTM's step with convolutions: (N, C, W) → (N, hidden_channels, W'); two states of the output's shape."""

    LAYOUTS = ("NCW", "NWC")


class Conv2DLSTMCell(_ConvLSTMCell):
    """An LSTM's step with convolutions: (N, C, H, W) → (N, hidden_channels, H', W'); two states of that shape."""

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DLSTMCell(_ConvLSTMCell):
    """An LSTM's step with convolutions of (N, C, D, H, W); two states of the output's shape."""

    LAYOUTS = ("NCDHW", "NDHWC")


class Conv1DGRUCell(_ConvGRUCell):
    """A step of gated recurrent units with convolutions: (N, C, W) → (N, hidden_channels, W')."""

    LAYOUTS = ("NCW", "NWC")


class Conv2DGRUCell(_ConvGRUCell):
    """A step of gated recurrent units with convolutions: (N, C, H, W) → (N, hidden_channels, H', W')."""

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DGRUCell(_ConvGRUCell):
    """A step of gated recurrent units with convolutions of (N, C, D, H, W)."""

    LAYOUTS = ("NCDHW", "NDHWC")
