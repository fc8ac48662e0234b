"""``mx.gluon.rnn.rnn_cell``: all cells, which MXNet has in this module, and what cells of users take from it."""

# pyright: reportUnusedFunction=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hybridc import nd, symbol
from hybridc.gluon.parameter import tensor_types
from hybridc.gluon.rnn.basic_cells import GRUCell, LSTMCell, RNNCell
from hybridc.gluon.rnn.modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell, RecurrentCell, begin_states, state_infos
from hybridc.gluon.rnn.sequences import UnrolledSteps, is_array
from hybridc.gluon.rnn.stacks import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from hybridc.trace.traced import Symbol

__all__ = [
    "RecurrentCell",
    "HybridRecurrentCell",
    "RNNCell",
    "LSTMCell",
    "GRUCell",
    "SequentialRNNCell",
    "HybridSequentialRNNCell",
    "DropoutCell",
    "ModifierCell",
    "ZoneoutCell",
    "ResidualCell",
    "BidirectionalCell",
    "tensor_types",
]


def _format_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, int, Any, int]:
    """A sequence as one array, as a list, or as it is; its time axis, ``F``, and the batch size, 0 of symbols."""
    if not length:  # as long as it is
        length = inputs.shape[(in_layout or layout).index("T")] if is_array(inputs) else len(inputs)
    steps = UnrolledSteps("unroll", length, inputs, in_layout or layout)
    formed, axis = steps.formed(inputs, merge), layout.index("T")
    if is_array(formed) and steps.axis != axis:
        formed = steps.F.swapaxes(formed, dim1=axis, dim2=steps.axis)
    return formed, axis, steps.F, steps.batch_size


def _mask_sequence_variable_length(
    F: Any,  # noqa: ARG001
    data: Any,
    length: int,
    valid_length: Any,
    time_axis: int,
    merge: bool | None,
) -> Any:
    """A sequence with zeros after the end of each row."""
    return UnrolledSteps("unroll", length, data, "TNC" if time_axis == 0 else "NTC").masked(data, valid_length, merge)


def _get_begin_state(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:
    """The states given, or else zeros."""
    return begin_states(cell, F, begin_state, inputs if is_array(inputs) else inputs[0], batch_size)


def _reverse_sequences(sequences: Sequence[Any], unroll_step: int, valid_length: Any = None) -> list[Any]:
    """The steps in reverse order; with ``valid_length`` those of each row up to its end."""
    if valid_length is None:
        return list(reversed(sequences))
    F = symbol if isinstance(sequences[0], Symbol) else nd
    stacked = F.stack(*sequences, axis=0)
    turned = F.SequenceReverse(stacked, sequence_length=valid_length, use_sequence_length=True)
    if unroll_step == 1:
        return [F.squeeze(turned, axis=0)]
    return list(F.split(turned, axis=0, num_outputs=unroll_step, squeeze_axis=True))


def _cells_state_info(cells: Iterable[Any], batch_size: int) -> list[Any]:
    """What the states of several cells are."""
    return state_infos(cells, batch_size)


def _cells_begin_state(cells: Iterable[Any], **kwargs: Any) -> list[Any]:
    """The states of several cells before the first step."""
    return [state for cell in cells for state in cell.begin_state(**kwargs)]
