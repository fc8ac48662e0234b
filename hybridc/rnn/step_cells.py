"""Cells of Elman networks, LSTMs and GRUs, and dropout, of symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc import initializer, symbol
from hybridc.errors import CheckError
from hybridc.rnn.base_cell import BaseRNNCell, RNNParams, normalized
from hybridc.symbol import ComposedSymbol


class _Connected(BaseRNNCell):
    """A fully connected cell: transforms of the inputs and of the last output, for each gate.

    Parameters
    ----------
    num_hidden:
        The size of the output.
    prefix:
        With what the names of nodes begin, and those of variables unless ``params`` are given.
    params:
        The variables of another cell, to share them; None makes new ones.
    """

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, i2h_bias: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._iW = self.params.get("i2h_weight")
        self._iB = self.params.get("i2h_bias", **({} if i2h_bias is None else {"init": i2h_bias}))
        self._hW = self.params.get("h2h_weight")
        self._hB = self.params.get("h2h_bias")

    @property
    def state_info(self) -> list[Any]:
        """The last output."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _transforms(self, inputs: Any, output: Any, name: str) -> tuple[Any, Any]:
        size = self._num_hidden * len(self._gate_names)
        i2h = symbol.FullyConnected(inputs, self._iW, self._iB, num_hidden=size, name=f"{name}i2h")
        h2h = symbol.FullyConnected(output, self._hW, self._hB, num_hidden=size, name=f"{name}h2h")
        return i2h, h2h

    def _step(self) -> str:
        """The beginning of the names of the next step."""
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"


class RNNCell(_Connected):
    """``activation(i2h(inputs) + h2h(output))``.

    Parameters
    ----------
    activation:
        The activation: the name of one of ``mx.sym.Activation``, or a function of a symbol.
    """

    def __init__(
        self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        name = self._step()
        i2h, h2h = self._transforms(inputs, states[0], name)
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_Connected):
    """A cell of an LSTM; its states are the output and the cell.

    Parameters
    ----------
    forget_bias:
        What the bias of the forget gate is initialized to.
    """

    def __init__(
        self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None, forget_bias: float = 1.0
    ) -> None:
        super().__init__(num_hidden, prefix, params, initializer.LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self) -> list[Any]:
        """The last output, and the cell."""
        return super().state_info * 2

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("_i", "_f", "_c", "_o")

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        name = self._step()
        i2h, h2h = self._transforms(inputs, states[0], name)
        gates = symbol.SliceChannel(i2h + h2h, num_outputs=4, name=f"{name}slice")
        return lstm_step(gates, states[1], name, _tanh)


def _tanh(x: Any, **kwargs: Any) -> Any:
    return symbol.Activation(x, act_type="tanh", **kwargs)


def lstm_step(gates: Any, cell: Any, name: str, activation: Any) -> tuple[Any, list[Any]]:
    """The output and the states of an LSTM, given its gates' transforms and the last cell."""
    enters = symbol.Activation(gates[0], act_type="sigmoid", name=f"{name}i")
    stays = symbol.Activation(gates[1], act_type="sigmoid", name=f"{name}f")
    new = activation(gates[2], name=f"{name}c")
    leaves = symbol.Activation(gates[3], act_type="sigmoid", name=f"{name}o")
    next_cell = symbol.elemwise_add(stays * cell, enters * new, name=f"{name}state")
    output = symbol.elemwise_mul(leaves, activation(next_cell), name=f"{name}out")
    return output, [output, next_cell]


class GRUCell(_Connected):
    """A cell of a GRU, in the variant of cuDNN."""

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("_r", "_z", "_o")

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        name = self._step()
        transforms = self._transforms(inputs, states[0], f"{name}_")
        return gru_step(transforms, states[0], name, _tanh)


def gru_step(
    transforms: tuple[Any, Any], state: Any, name: str, activation: Any, axis: int = 1
) -> tuple[Any, list[Any]]:
    """The output and the states of a GRU, given the transforms of the inputs and of the last output."""
    # COMPAT(mxnet): of images with the channels last, it cuts the rows in three.
    i2h = symbol.SliceChannel(transforms[0], num_outputs=3, axis=axis, name=f"{name}_i2h_slice")
    h2h = symbol.SliceChannel(transforms[1], num_outputs=3, axis=axis, name=f"{name}_h2h_slice")
    reset = symbol.Activation(i2h[0] + h2h[0], act_type="sigmoid", name=f"{name}_r_act")
    update = symbol.Activation(i2h[1] + h2h[1], act_type="sigmoid", name=f"{name}_z_act")
    new = activation(i2h[2] + reset * h2h[2], name=f"{name}_h_act")
    output = symbol.elemwise_add((1.0 - update) * new, update * state, name=f"{name}out")
    return output, [output]


class DropoutCell(BaseRNNCell):
    """Dropout of the inputs; it has no state.

    Parameters
    ----------
    dropout:
        The share of the inputs that is dropped in training, 0 to 1; anything but a number is a CheckError.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(dropout, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"DropoutCell: dropout must be a number, got {dropout!r}")
        self.dropout = dropout

    @property
    def state_info(self) -> list[Any]:
        """None."""
        return []

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        return symbol.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Of a symbol, one dropout of all steps."""
        self.reset()
        inputs, _ = normalized(length, inputs, layout, merge_outputs)
        if isinstance(inputs, ComposedSymbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)
