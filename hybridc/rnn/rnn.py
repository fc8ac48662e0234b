"""Checkpoints of networks with recurrent cells: their files have the gates' weights apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hybridc.rnn.base_cell import Arrays, BaseRNNCell
from hybridc.symbol import checkpoint

Cells = BaseRNNCell | Sequence[BaseRNNCell]


def rnn_unroll(
    cell: BaseRNNCell,
    length: int,
    inputs: Any = None,
    begin_state: Any = None,
    input_prefix: str = "",  # noqa: ARG001 - MXNet's, of inputs that it made
    layout: str = "NTC",
) -> Any:
    """``cell.unroll``; deprecated.

    Parameters
    ----------
    cell:
        The cell.
    length, inputs, begin_state, layout:
        As for ``cell.unroll``.
    input_prefix:
        Accepted for MXNet's API.
    """
    # COMPAT(mxnet): there it always fails, for it passes input_prefix on.
    warnings.warn("rnn_unroll is deprecated; call cell.unroll", stacklevel=2)
    return cell.unroll(length, inputs, begin_state=begin_state, layout=layout)


def save_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int, symbol: Any, arg_params: Arrays, aux_params: Arrays
) -> None:
    """``mx.model.save_checkpoint`` of the weights unpacked by the cells.

    Parameters
    ----------
    cells:
        The cell, or a list of them.
    prefix:
        With what the names of the files begin.
    epoch:
        The number in the name of the file of arrays.
    symbol:
        The symbol.
    arg_params, aux_params:
        The arguments, and the auxiliary states, by name.
    """
    for cell in _listed(cells):
        arg_params = cell.unpack_weights(arg_params)
    checkpoint.save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Cells, prefix: str, epoch: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The symbol, the arguments, packed by the cells, and the auxiliary states of a checkpoint.

    Parameters
    ----------
    cells:
        The cell, or a list of them.
    prefix:
        With what the names of the files begin.
    epoch:
        The number in the name of the file of arrays.
    """
    symbol, arguments, states = checkpoint.load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        arguments = cell.pack_weights(arguments)
    return symbol, arguments, states


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """A function ``call(epoch, symbol, arguments, states)`` that saves a checkpoint.

    Parameters
    ----------
    cells:
        The cell, or a list of them.
    prefix:
        With what the names of the files begin.
    period:
        Every how many epochs.
    """
    period = max(1, int(period))

    def save(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return save


def _listed(cells: Cells) -> Sequence[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else cells
