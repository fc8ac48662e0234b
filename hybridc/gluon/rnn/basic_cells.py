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
        The size of the hidden state.
    input_size:
        The number of inputs; 0: it follows from the first input.
    activation:
        The activation function of the hidden state.
    recurrent_activation:
        The activation function of gates.
    i2h_weight_initializer:
        The initializer of the weights of inputs; by default that of ``initialize()``.
    h2h_weight_initializer:
        The initializer of the weights of hidden states; by default that of ``initialize()``.
    i2h_bias_initializer:
        The initializer of the bias of inputs.
    h2h_bias_initializer:
        The initializer of the bias of hidden states.
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
    """activation(inputs · i2h_weightᵀ + i2h_bias + output · h2h_weightᵀ + h2h_bias): an Elman network's step

    One state, the output: (N, hidden_size).
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
    """The step of a network with long short-term memory (Hochreiter and Schmidhuber 1997)

    The gates i, f, g, o, one below the other in the weights: memory' = f * memory + i * g, output = o *
    activation(memory'), where g has the ``activation`` and the others the ``recurrent_activation``. Two states, the
    output and the memory: (N, hidden_size).
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
        """Two states, the output of the last step and the memory."""
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
    """The step of a network of gated recurrent units (Cho et al. 2014), as cuDNN has it

    The gates r, z and the new output n, one below the other in the weights: output' = (1 - z) * n + z * output, where
    r, z = sigmoid(i2h + h2h) and n = tanh(i2h + r * h2h). One state, the output: (N, hidden_size).
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
