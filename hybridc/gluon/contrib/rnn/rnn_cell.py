"""LSTMs whose output is projected, and dropout that is the same at every step."""

from __future__ import annotations

from typing import Any

from hybridc import autograd
from hybridc.errors import AttributeValueError
from hybridc.gluon.rnn.basic_cells import GatedCell
from hybridc.gluon.rnn.modifiers import ModifierCell, check_steps, drops
from hybridc.gluon.rnn.sequences import namespace
from hybridc.ground.nesting import as_list

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]


class LSTMPCell(GatedCell):
    """A step of an LSTM whose output is projected: ``output = (o * tanh(memory)) · h2r_weightᵀ`` (Sak et al. 2014)

    Called as ``output, [output, memory] = cell(inputs, [output, memory])``: inputs (N, features), output (N,
    projection_size), memory (N, hidden_size). The rest is as in :class:`hybridc.gluon.rnn.LSTMCell`.

    Parameters
    ----------
    hidden_size:
        The number of features of the memory.
    projection_size:
        The number of features of the output.
    input_size:
        The number of features of the inputs; 0: it follows from the first.
    i2h_weight_initializer:
        The initializer of the weights of inputs; None: that of ``initialize()``.
    h2h_weight_initializer:
        The initializer of the weights of the last output; None: that of ``initialize()``.
    h2r_weight_initializer:
        The initializer of the weights of the projection; None: that of ``initialize()``.
    i2h_bias_initializer:
        The initializer of the bias of inputs.
    h2h_bias_initializer:
        The initializer of the bias of the last output.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.LSTMPCell(hidden_size=32, projection_size=8)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3)), cell.begin_state(batch_size=2))
    >>> output.shape, [state.shape for state in states]
    ((2, 8), [(2, 8), (2, 32)])
    """

    GATES = 4
    h2r_weight: Any

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._projection_size = projection_size
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self.GATES * hidden_size
        self._parameter("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self._parameter("h2h_weight", (rows, projection_size), h2h_weight_initializer)
        self._parameter("h2r_weight", (projection_size, hidden_size), h2r_weight_initializer)
        self._parameter("i2h_bias", (rows,), i2h_bias_initializer)
        self._parameter("h2h_bias", (rows,), h2h_bias_initializer)

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Two states: the output of the last step, and the memory."""
        sizes = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def _alias(self) -> str:
        return "lstmp"

    def hybrid_forward(
        self,
        F: Any,
        inputs: Any,
        states: Any,
        i2h_weight: Any,
        h2h_weight: Any,
        h2r_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> Any:
        """The output, and the states: it and the memory."""
        output, memory = self._states(inputs, states)
        i2h, h2h, prefix = self._transforms(F, inputs, output, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        gates = F.SliceChannel(F.elemwise_add(i2h, h2h), num_outputs=4, name=prefix + "slice")
        i = F.Activation(gates[0], act_type="sigmoid", name=prefix + "i")
        f = F.Activation(gates[1], act_type="sigmoid", name=prefix + "f")
        g = F.Activation(gates[2], act_type="tanh", name=prefix + "c")
        o = F.Activation(gates[3], act_type="sigmoid", name=prefix + "o")
        memory = F.elemwise_add(F.elemwise_mul(f, memory), F.elemwise_mul(i, g), name=prefix + "state")
        hidden = F.elemwise_mul(o, F.Activation(memory, act_type="tanh"), name=prefix + "hidden")
        output = F.FullyConnected(
            hidden, h2r_weight, num_hidden=self._projection_size, no_bias=True, name=prefix + "out"
        )
        return output, [output, memory]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sizes()} -> {self._projection_size})"


class VariationalDropoutCell(ModifierCell):
    """In train mode, dropout of what goes into and out of a cell, the same at every step (Gal and Ghahramani 2015)

    What is dropped is drawn at the first step after ``reset()``, which ``unroll`` calls. Otherwise it does what
    base_cell does.

    Parameters
    ----------
    drop_inputs:
        The probability that a feature of the inputs is 0 in this sequence; the others are multiplied by ``1 / (1 -
        drop_inputs)``.
    drop_states:
        The same for the first state, the last output.
    drop_outputs:
        The same for the outputs.

    Examples
    --------
    >>> cell = gluon.contrib.rnn.VariationalDropoutCell(gluon.rnn.GRUCell(8), drop_outputs=0.5)
    >>> cell.initialize()
    >>> mx.random.seed(0)
    >>> with autograd.record():
    ...     outputs, states = cell.unroll(3, mx.nd.ones((1, 3, 4)), merge_outputs=True)

    The same features are 0 at all three steps:

    >>> outputs[0] == 0
    [[1. 1. 0. 1. 1. 1. 1. 0.]
     [1. 1. 0. 1. 1. 1. 1. 0.]
     [1. 1. 0. 1. 1. 1. 1. 0.]]
    <NDArray 3x8 @cpu(0)>
    """

    KEPT = ("drop_inputs_mask", "drop_states_mask", "drop_outputs_mask")

    def __init__(
        self, base_cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0
    ) -> None:
        if drop_states:
            check_steps(base_cell, "variational state dropout", type(self).__name__)
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs

    def _alias(self) -> str:
        return "vardrop"

    def _keeps(self) -> bool:
        rates = (self.drop_inputs, self.drop_states, self.drop_outputs)
        return (autograd.is_training() and any(rates)) or super()._keeps()

    def _masked(self, F: Any, x: Any, rate: float, name: str) -> Any:
        """An array with a mask, which is drawn if there is none."""
        # COMPAT(mxnet): there predict mode makes masks of ones, which stay when training begins without reset().
        if not rate or not drops(x):
            return x
        mask = self._kept(name, x)
        if mask is None:
            mask = F.Dropout(F.ones_like(x), p=rate)
            setattr(self, name, mask)
        return x * mask

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """The output and the states, with dropout."""
        states = self._states(inputs, states)
        if self.drop_states:
            states[0] = self._masked(F, states[0], self.drop_states, "drop_states_mask")
        inputs = self._masked(F, inputs, self.drop_inputs, "drop_inputs_mask")
        output, states = self.base_cell(inputs, states)
        return self._masked(F, output, self.drop_outputs, "drop_outputs_mask"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """As of any cell, but without ``drop_states`` the outputs are one array unless ``merge_outputs`` is False."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        steps = self._begin(length, inputs, layout, valid_length)
        states = self._begin_states(steps, begin_state)
        inputs = steps.merge(inputs)
        if self.drop_inputs:
            inputs = steps.F.Dropout(inputs, p=self.drop_inputs, axes=(steps.axis,))
        outputs, states = self._base_unrolled(length, inputs, states, layout, True, valid_length)
        if self.drop_outputs:
            outputs = steps.F.Dropout(outputs, p=self.drop_outputs, axes=(steps.axis,))
        merge = merge_outputs is None or merge_outputs
        if valid_length is None:
            return steps.formed(outputs, merge), states
        return steps.masked(outputs, valid_length, merge), states

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, Any]:
    """Step a cell over a sequence by ``contrib.foreach``: outputs of all steps in the inputs' layout, and last states.

    A hybridized block has one loop for sequences of all lengths. Dropout is the same at all steps.
    With a ``valid_length`` ``(N,)``, outputs beyond it are 0, and states are those of the last step within.

    Parameters
    ----------
    cell:
        The cell, or another function of inputs and states.
    inputs:
        The sequence, an array with its axes in the order of ``layout``.
    begin_state:
        The states before the first step, as of ``cell.begin_state``.
    drop_inputs:
        The probability that a feature of the inputs is 0 at all steps, in train mode.
    drop_outputs:
        The same for the outputs.
    layout:
        The axes of the inputs and outputs: "TNC" or "NTC"; another is an AttributeValueError.
    valid_length:
        An array (N,) with the length of each row; None: all are of full length.
    """
    if layout not in ("TNC", "NTC"):
        raise AttributeValueError(f"dynamic_unroll: layout must be 'TNC' or 'NTC', got {layout!r}")
    F, axis = namespace(inputs), layout.index("T")
    if axis:
        inputs = F.swapaxes(inputs, 0, 1)
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(0,))
    if valid_length is None:
        outputs, states = F.contrib.foreach(cell, inputs, begin_state)
    else:
        cells = as_list(begin_state)

        def step(each: Any, states: Any) -> tuple[Any, Any]:
            *before, number = states
            out, after = cell(each, before)
            is_inside = F.broadcast_greater(F.cast(valid_length, "float32"), number)
            chosen = [_chosen(F, is_inside, a, b) for a, b in zip(as_list(after), before, strict=True)]
            return out, [*chosen, number + 1]

        outputs, states = F.contrib.foreach(step, inputs, [*cells, F.zeros(shape=(1,))])
        states = states[:-1]
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if valid_length is not None:
        outputs = F.SequenceMask(outputs, valid_length, use_sequence_length=True)
    return F.swapaxes(outputs, 0, 1) if axis else outputs, states


def _chosen(F: Any, is_inside: Any, after: Any, before: Any) -> Any:
    """By row, the state after a step within a sequence, else that before it."""
    shape = (before.shape[0], *[1] * (len(before.shape) - 1))
    return F.where(F.broadcast_to(F.reshape(is_inside, shape=shape), shape=before.shape), after, before)
