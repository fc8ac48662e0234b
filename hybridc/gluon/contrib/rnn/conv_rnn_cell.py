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

    Parameters
    ----------
    input_shape:
        The shape of one row's step, in the order of ``conv_layout`` without N: (C, H, W) of NCHW. Another number of
        axes is a CheckError.
    hidden_channels:
        The number of channels of the output and of each state.
    i2h_kernel:
        The size of the kernel over the inputs: a number, or a tuple with one for each axis.
    h2h_kernel:
        The size of the kernel over the last output, likewise; sizes are odd (else a CheckError), and the padding is
        such that the output keeps its size.
    i2h_pad:
        How many zeros are put at each end of the inputs' axes, a number or a tuple.
    i2h_dilate:
        The distance between the elements of the inputs that neighbours in the kernel meet, a number or a tuple.
    h2h_dilate:
        The same for the last output.
    i2h_weight_initializer:
        The initializer of the kernels over the inputs; None: that of ``initialize()``.
    h2h_weight_initializer:
        The initializer of the kernels over the last output; None: that of ``initialize()``.
    i2h_bias_initializer:
        The initializer of the bias of inputs.
    h2h_bias_initializer:
        The initializer of the bias of the last output.
    conv_layout:
        The order of axes, as "NCHW", or "NHWC" with channels last; by default channels come second.
    activation:
        The activation function of the new output, a name as "tanh", a function or a block; of an LSTM also that of
        the memory. Gates have the sigmoid.
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
        """The states, each of the output's shape, as dicts: ``[{'shape': (2, 8, 32, 32), '__layout__': 'NCHW'}]``."""
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
    """``activation(convolution(inputs) + convolution(output))``: (N, C, W) → (N, hidden_channels, W')

    Called as ``output, [output] = cell(inputs, [output])``; the output is the state. W' is ``W + 2*i2h_pad -
    i2h_dilate*(i2h_kernel - 1)``.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv1DRNNCell((1, 4), 1, i2h_kernel=3, h2h_kernel=1, i2h_pad=1, activation="relu")
    >>> cell.initialize(mx.init.One())
    >>> output, states = cell(mx.nd.array([[[1, 2, 3, 4]]]), [mx.nd.array([[[10, 10, 10, 10]]])])
    >>> output
    [[[13. 16. 19. 17.]]]
    <NDArray 1x1x4 @cpu(0)>
    """

    LAYOUTS = ("NCW", "NWC")


class Conv2DRNNCell(_ConvRNNCell):
    """``activation(convolution(inputs) + convolution(output))``: (N, C, H, W) → (N, hidden_channels, H', W')

    Called as ``output, [output] = cell(inputs, [output])``; the output is the state. H' is ``H + 2*i2h_pad -
    i2h_dilate*(i2h_kernel - 1)``, and so on.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv2DRNNCell((3, 32, 32), 8, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 32, 32)), cell.begin_state(batch_size=2))
    >>> output.shape
    (2, 8, 32, 32)

    Without ``i2h_pad`` the image becomes smaller:

    >>> gluon.contrib.rnn.Conv2DRNNCell((3, 32, 32), 8, i2h_kernel=5, h2h_kernel=3).state_info(2)
    [{'shape': (2, 8, 28, 28), '__layout__': 'NCHW'}]
    """

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DRNNCell(_ConvRNNCell):
    """``activation(convolution(inputs) + convolution(output))``: (N, C, D, H, W) → (N, hidden_channels, D', H', W')

    Called as ``output, [output] = cell(inputs, [output])``; the output is the state. D' is ``D + 2*i2h_pad -
    i2h_dilate*(i2h_kernel - 1)``, and so on.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv3DRNNCell((1, 4, 8, 8), 2, i2h_kernel=(1, 3, 3), h2h_kernel=1, i2h_pad=(0, 1, 1))
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 1, 4, 8, 8)), cell.begin_state(batch_size=2))
    >>> output.shape
    (2, 2, 4, 8, 8)
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class Conv1DLSTMCell(_ConvLSTMCell):
    """A step of an LSTM with convolutions (Shi et al. 2015): (N, C, W) → (N, hidden_channels, W')

    Called as ``output, [output, memory] = cell(inputs, [output, memory])``; both states have the shape of the output.
    The gates are those of :class:`hybridc.gluon.rnn.LSTMCell`. W' is ``W + 2*i2h_pad - i2h_dilate*(i2h_kernel - 1)``.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv1DLSTMCell((3, 16), 4, i2h_kernel=5, h2h_kernel=3, i2h_pad=2)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 16)), cell.begin_state(batch_size=2))
    >>> output.shape, len(states)
    ((2, 4, 16), 2)
    """

    LAYOUTS = ("NCW", "NWC")


class Conv2DLSTMCell(_ConvLSTMCell):
    """A step of an LSTM with convolutions (Shi et al. 2015): (N, C, H, W) → (N, hidden_channels, H', W')

    Called as ``output, [output, memory] = cell(inputs, [output, memory])``; both states have the shape of the output.
    The gates are those of :class:`hybridc.gluon.rnn.LSTMCell`. H' is ``H + 2*i2h_pad - i2h_dilate*(i2h_kernel - 1)``,
    and so on.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv2DLSTMCell((1, 16, 16), 4, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
    >>> cell.initialize()

    A film of five images; the last output says what may come next:

    >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 1, 16, 16)), merge_outputs=True)
    >>> outputs.shape, states[0].shape
    ((2, 5, 4, 16, 16), (2, 4, 16, 16))
    """

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DLSTMCell(_ConvLSTMCell):
    """A step of an LSTM with convolutions (Shi et al. 2015): (N, C, D, H, W) → (N, hidden_channels, D', H', W')

    Called as ``output, [output, memory] = cell(inputs, [output, memory])``; both states have the shape of the output.
    The gates are those of :class:`hybridc.gluon.rnn.LSTMCell`. D' is ``D + 2*i2h_pad - i2h_dilate*(i2h_kernel - 1)``,
    and so on.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv3DLSTMCell((4, 8, 8, 1), 2, 3, 3, i2h_pad=1, conv_layout="NDHWC")
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 4, 8, 8, 1)), cell.begin_state(batch_size=2))
    >>> output.shape
    (2, 4, 8, 8, 2)
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class Conv1DGRUCell(_ConvGRUCell):
    """A step of gated recurrent units with convolutions: (N, C, W) → (N, hidden_channels, W')

    Called as ``output, [output] = cell(inputs, [output])``; the output is the state. The gates are those of
    :class:`hybridc.gluon.rnn.GRUCell`. W' is ``W + 2*i2h_pad - i2h_dilate*(i2h_kernel - 1)``.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv1DGRUCell((3, 16), 4, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 3, 16)), merge_outputs=True)
    >>> outputs.shape
    (2, 5, 4, 16)
    """

    LAYOUTS = ("NCW", "NWC")


class Conv2DGRUCell(_ConvGRUCell):
    """A step of gated recurrent units with convolutions: (N, C, H, W) → (N, hidden_channels, H', W')

    Called as ``output, [output] = cell(inputs, [output])``; the output is the state. The gates are those of
    :class:`hybridc.gluon.rnn.GRUCell`. H' is ``H + 2*i2h_pad - i2h_dilate*(i2h_kernel - 1)``, and so on.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv2DGRUCell((16, 16, 3), 8, 3, 3, i2h_pad=1, conv_layout="NHWC")
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 16, 16, 3)), cell.begin_state(batch_size=2))
    >>> output.shape
    (2, 16, 16, 8)
    """

    LAYOUTS = ("NCHW", "NHWC")


class Conv3DGRUCell(_ConvGRUCell):
    """A step of gated recurrent units with convolutions: (N, C, D, H, W) → (N, hidden_channels, D', H', W')

    Called as ``output, [output] = cell(inputs, [output])``; the output is the state. The gates are those of
    :class:`hybridc.gluon.rnn.GRUCell`. D' is ``D + 2*i2h_pad - i2h_dilate*(i2h_kernel - 1)``, and so on.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.Conv3DGRUCell((1, 4, 8, 8), 2, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 1, 4, 8, 8)), cell.begin_state(batch_size=2))
    >>> output.shape
    (2, 2, 4, 8, 8)
    """

    LAYOUTS = ("NCDHW", "NDHWC")
