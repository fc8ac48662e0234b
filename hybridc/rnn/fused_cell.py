"""``FusedRNNCell``: layers of cells as one operator, ``RNN``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from hybridc import initializer, nd, symbol
from hybridc.dialects.control.rnn import GATE_NAMES, Rnn
from hybridc.errors import MXNetError
from hybridc.rnn.base_cell import Arrays, BaseRNNCell, RNNParams, normalized, parts
from hybridc.rnn.cell_groups import BidirectionalCell, SequentialRNNCell
from hybridc.rnn.step_cells import DropoutCell, GRUCell, LSTMCell, RNNCell
from hybridc.symbol import ComposedSymbol


class FusedRNNCell(BaseRNNCell):
    """Layers of one kind of cell for whole sequences; ``unfuse`` makes a stack of cells of it.

    All weights are one variable, ``parameters``.

    Parameters
    ----------
    num_hidden:
        The size of the output.
    num_layers:
        How many layers.
    mode:
        ``"lstm"``, ``"gru"``, ``"rnn_relu"`` or ``"rnn_tanh"``.
    bidirectional:
        Whether each layer has two directions, whose outputs are concatenated.
    dropout:
        The share of values that is dropped between layers in training.
    get_next_state:
        Whether the last states are returned; else they are an empty list.
    forget_bias:
        What the bias of the forget gate of an LSTM is initialized to.
    prefix:
        With what names begin; None is the mode.
    params:
        The variables of another cell, to share them; None makes new ones.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._op: Any = Rnn.bind(state_size=num_hidden, num_layers=num_layers, mode=mode, bidirectional=bidirectional)
        self._parameter = self.params.get(
            "parameters",
            init=initializer.FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias),
        )

    @property
    def state_info(self) -> list[Any]:
        """The last outputs of all layers and directions, and the cells of an LSTM."""
        shape = (self._num_layers * (1 + self._bidirectional), 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(1 + (self._mode == "lstm"))]

    @property
    def _gate_names(self) -> Sequence[str]:
        return GATE_NAMES[self._mode]

    # --- weights -------------------------------------------------------------------------------------------

    def unpack_weights(self, args: Arrays) -> dict[str, Any]:
        """An array for each weight and bias of each layer, direction and gate: ``lstm_l0_i2h_f_weight``."""
        found = dict(args)
        packed = found.pop(self._parameter.name, None)
        if packed is None:
            raise MXNetError(f"there is no array {self._parameter.name!r} among {', '.join(found) or 'none'}")
        for name, begin, shape in self._op.named_parts(self._op.features_of(packed.size)):
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            found[self._prefix + name] = packed[begin : begin + size].reshape(shape).copy()
        return found

    def pack_weights(self, args: Arrays) -> dict[str, Any]:
        """The inverse of :meth:`unpack_weights`."""
        found = dict(args)
        first = f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"
        if first not in found:
            raise MXNetError(f"there is no array {first!r} among {', '.join(found) or 'none'}")
        names = [self._prefix + name for name, _, _ in self._op.named_parts(found[first].shape[1])]
        found[self._parameter.name] = nd.concat(*[found.pop(name).reshape((-1,)) for name in names], dim=0)
        return found

    # --- sequences -----------------------------------------------------------------------------------------

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Raises: it is for whole sequences."""
        raise NotImplementedError("FusedRNNCell cannot be stepped; use unroll, or call unfuse() for cells that can be")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """The outputs, as one symbol unless ``merge_outputs`` is False; and the last states, if they are returned."""
        self.reset()
        sequence, axis = normalized(length, inputs, layout, merge=True)
        if axis == 1:
            warnings.warn("NTC layout detected. Consider using TNC for FusedRNNCell for faster speed", stacklevel=2)
            sequence = symbol.swapaxes(sequence, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        made = symbol.RNN(
            sequence, self._parameter, *states[: len(self.state_info)], state_size=self._num_hidden,
            num_layers=self._num_layers, bidirectional=self._bidirectional, p=self._dropout,
            state_outputs=self._get_next_state, mode=self._mode, name=f"{self._prefix}rnn",
        )  # fmt: skip
        last: list[Any] = []
        if self._get_next_state:
            last = [made[i] for i in range(1, len(made.entries))]
            made._set_attr(__layout__="LNC")
        outputs = ComposedSymbol(made.entries[:1])
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return parts(outputs, axis, length) if merge_outputs is False else outputs, last

    def unfuse(self) -> SequentialRNNCell:
        """The same network as a stack of cells, which take the weights of :meth:`unpack_weights`, packed by them."""
        stack = SequentialRNNCell()
        for i in range(self._num_layers):
            if self._bidirectional:
                left, right = [self._cell(f"{self._prefix}{side}{i}_") for side in "lr"]
                stack.add(BidirectionalCell(left, right, output_prefix=f"{self._prefix}bi_l{i}_"))
            else:
                stack.add(self._cell(f"{self._prefix}l{i}_"))
            if self._dropout > 0 and i != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{i}_"))
        return stack

    def _cell(self, prefix: str) -> BaseRNNCell:
        if self._mode == "lstm":
            return LSTMCell(self._num_hidden, prefix=prefix)
        if self._mode == "gru":
            return GRUCell(self._num_hidden, prefix=prefix)
        return RNNCell(self._num_hidden, activation=self._mode.removeprefix("rnn_"), prefix=prefix)
