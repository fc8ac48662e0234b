"""The cells of Elman networks, LSTMs and GRUs."""

from __future__ import annotations

from typing import Any, ClassVar

from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell


class GatedCell(HybridRecurrentCell):
    """The base of cells that are fully connected: ``GATES`` transforms of the inputs, and as many of the last output.

    ``i2h_weight`` (gates * hidden_size, input_size) and ``h2h_weight`` (gates * hidden_size, size of the output) are
    the gates' weights one below the other. ``input_size=0`` is inferred from the first inputs.
    """

    GATES: ClassVar[int] = 1
    i2h_weight: Any
    h2h_weight: Any
    i2h_bias: Any
    h2h_bias: Any
    _hidden_size: int

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """One state, the output of the last step."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def _transforms(
        self, F: Any, inputs: Any, output: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> tuple[Any, Any, str]:
        """All gates' transforms of the inputs and of the last output, and the prefix of this step's names."""
        prefix = f"t{vars(self)['_counter']}_"
        size = self.GATES * self._hidden_size
        i2h = F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=size, name=prefix + "i2h")
        h2h = F.FullyConnected(output, h2h_weight, h2h_bias, num_hidden=size, name=prefix + "h2h")
        return i2h, h2h, prefix

    def _sizes(self) -> str:
        rows, inputs = self.i2h_weight.shape
        return f"{inputs or None} -> {rows}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sizes()})"


class FullyConnectedCell(GatedCell):
    """A cell whose output has the hidden size: its weights and biases.

    Parameters
    ----------
    hidden_size:
        The number of features of the output and of each state.
    input_size:
        The number of features of the inputs; 0: it follows from the first.
    activation:
        The activation function of the new output: a name as "tanh" or "relu", a function, or a block.
    recurrent_activation:
        The activation function of the gates, likewise.
    i2h_weight_initializer:
        The initializer of the weights of inputs; None: that of ``initialize()``.
    h2h_weight_initializer:
        The initializer of the weights of the last output; None: that of ``initialize()``.
    i2h_bias_initializer:
        The initializer of the bias of inputs.
    h2h_bias_initializer:
        The initializer of the bias of the last output.
    """

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self.GATES * hidden_size
        self._parameter("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self._parameter("h2h_weight", (rows, hidden_size), h2h_weight_initializer)
        self._parameter("i2h_bias", (rows,), i2h_bias_initializer)
        self._parameter("h2h_bias", (rows,), h2h_bias_initializer)


class RNNCell(FullyConnectedCell):
    """``activation(inputs · i2h_weightᵀ + i2h_bias + output · h2h_weightᵀ + h2h_bias)``: a step of an Elman network

    Called as ``output, [output] = cell(inputs, [output])``: inputs (N, features), output (N, hidden_size), which is the
    state.

    Examples
    --------
    >>> cell = gluon.rnn.RNNCell(1, "relu", i2h_weight_initializer="ones", h2h_weight_initializer="ones")
    >>> cell.initialize()
    >>> x = mx.nd.array([[[1], [2], [3]]])
    >>> outputs, states = cell.unroll(3, x, merge_outputs=True)
    >>> outputs
    [[[1.]
      [3.]
      [6.]]]
    <NDArray 1x3x1 @cpu(0)>

    With these weights it sums up the steps. One step alone:

    >>> output, states = cell(x[:, 0], cell.begin_state(batch_size=1))
    >>> output
    [[1.]]
    <NDArray 1x1 @cpu(0)>
    """

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(
            hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
            input_size, prefix, params,
        )  # fmt: skip
        self._activation = activation

    def _alias(self) -> str:
        return "rnn"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """The output, which is also the state."""
        (output,) = self._states(inputs, states)
        i2h, h2h, prefix = self._transforms(F, inputs, output, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        total = F.elemwise_add(i2h, h2h, name=prefix + "plus0")
        output = self._get_activation(F, total, self._activation, name=prefix + "out")
        return output, [output]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sizes()}, {self._activation})"


class LSTMCell(FullyConnectedCell):
    """A step of a network with long short-term memory (Hochreiter and Schmidhuber 1997)

    Called as ``output, [output, memory] = cell(inputs, [output, memory])``: inputs (N, features), the others (N,
    hidden_size). With the gates i, f, g and o, each a transform of the inputs and of the last output as in
    :class:`RNNCell`, the memory becomes ``f * memory + i * g``, and the output ``o * activation(memory)``. ``g`` has
    the ``activation``, the others the ``recurrent_activation``. The weights have the gates one below the other in this
    order: i2h_weight (4 * hidden_size, features), h2h_weight (4 * hidden_size, hidden_size).

    Examples
    --------
    >>> cell = gluon.rnn.LSTMCell(8)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3)), cell.begin_state(batch_size=2))
    >>> output.shape, [state.shape for state in states]
    ((2, 8), [(2, 8), (2, 8)])

    A sequence of five steps:

    >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 3)), merge_outputs=True)
    >>> outputs.shape
    (2, 5, 8)
    """

    GATES = 4

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
            input_size, prefix, params,
        )  # fmt: skip
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Two states: the output of the last step, and the memory."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"} for _ in range(2)]

    def _alias(self) -> str:
        return "lstm"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """The output, and the states: it and the memory."""
        output, memory = self._states(inputs, states)
        i2h, h2h, prefix = self._transforms(F, inputs, output, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        gates = F.SliceChannel(F.elemwise_add(i2h, h2h, name=prefix + "plus0"), num_outputs=4, name=prefix + "slice")
        recurrent = self._recurrent_activation
        i = self._get_activation(F, gates[0], recurrent, name=prefix + "i")
        f = self._get_activation(F, gates[1], recurrent, name=prefix + "f")
        g = self._get_activation(F, gates[2], self._activation, name=prefix + "c")
        o = self._get_activation(F, gates[3], recurrent, name=prefix + "o")
        memory = F.elemwise_add(
            F.elemwise_mul(f, memory, name=prefix + "mul0"),
            F.elemwise_mul(i, g, name=prefix + "mul1"),
            name=prefix + "state",
        )
        # COMPAT(mxnet): there the activation of the memory must be a name.
        activation = self._activation
        if isinstance(activation, str):
            shown = F.Activation(memory, act_type=activation, name=prefix + "activation0")
        else:
            shown = self._get_activation(F, memory, activation)
        output = F.elemwise_mul(o, shown, name=prefix + "out")
        return output, [output, memory]


class GRUCell(FullyConnectedCell):
    """A step of a network of gated recurrent units (Cho et al. 2014), as cuDNN has them

    Called as ``output, [output] = cell(inputs, [output])``: inputs (N, features), output (N, hidden_size), which is the
    state. The output becomes ``(1 - z) * n + z * output``, with ``r = sigmoid(i2h_r + h2h_r)``, ``z = sigmoid(i2h_z +
    h2h_z)``, ``n = tanh(i2h_n + r * h2h_n)``, where i2h are transforms of the inputs and h2h of the last output as in
    :class:`RNNCell`. The weights have r, z and n one below the other: i2h_weight (3 * hidden_size, features),
    h2h_weight (3 * hidden_size, hidden_size).

    Examples
    --------
    >>> cell = gluon.rnn.GRUCell(2, i2h_weight_initializer="zeros", h2h_weight_initializer="zeros")
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((1, 3)), [mx.nd.array([[1, 8]])])

    Weights of 0 halve the state, as z is sigmoid(0) and n is tanh(0):

    >>> output
    [[0.5 4. ]]
    <NDArray 1x2 @cpu(0)>
    """

    GATES = 3

    def _alias(self) -> str:
        return "gru"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """The output, which is also the state."""
        (output,) = self._states(inputs, states)
        i2h, h2h, prefix = self._transforms(F, inputs, output, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        i2h_r, i2h_z, i2h_n = F.SliceChannel(i2h, num_outputs=3, name=prefix + "i2h_slice")
        h2h_r, h2h_z, h2h_n = F.SliceChannel(h2h, num_outputs=3, name=prefix + "h2h_slice")
        r = F.Activation(F.elemwise_add(i2h_r, h2h_r, name=prefix + "plus0"), act_type="sigmoid", name=prefix + "r_act")
        z = F.Activation(F.elemwise_add(i2h_z, h2h_z, name=prefix + "plus1"), act_type="sigmoid", name=prefix + "z_act")
        reset = F.elemwise_mul(r, h2h_n, name=prefix + "mul0")
        n = F.Activation(F.elemwise_add(i2h_n, reset, name=prefix + "plus2"), act_type="tanh", name=prefix + "h_act")
        ones = F.ones_like(z, name=prefix + "ones_like0")
        output = F.elemwise_add(
            F.elemwise_mul(F.elemwise_sub(ones, z, name=prefix + "minus0"), n, name=prefix + "mul1"),
            F.elemwise_mul(z, output, name=prefix + "mul20"),
            name=prefix + "out",
        )
        return output, [output]
