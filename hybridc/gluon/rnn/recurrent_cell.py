"""The base of all cells: what one step does is called, and unrolled over the steps of a sequence."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Sequence
from typing import Any, cast

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_default
from hybridc.context import Context
from hybridc.dtypes import is_float
from hybridc.errors import ArgumentTypeError, CheckError, ShapeError
from hybridc.gluon.block import Block, HybridBlock
from hybridc.gluon.nn.activations import LeakyReLU
from hybridc.gluon.rnn.sequences import UnrolledSteps, brief, is_array, label, shape_of
from hybridc.ground.state import STATE
from hybridc.symbol.composed import ComposedSymbol, composing
from hybridc.symbol.variables import var

_FUNCTIONS = ("tanh", "relu", "sigmoid", "softsign")  # of F, by which these activations are computed


class RecurrentCell(Block):
    """A step of a recurrent network: ``output, states = cell(inputs, states)``

    The inputs are (N, features), the states a list of arrays, one for each that ``state_info`` describes.
    ``begin_state`` makes the states before the first step, ``unroll`` calls the cell for every step of a sequence. In a
    class of yours override ``forward(self, inputs, states)`` and ``state_info``.
    """

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Forget what was kept of the steps before: a new sequence begins."""
        # Counters give names and decide nothing: compiled graphs need not notice them.
        vars(self).update(_counter=-1, _init_counter=-1)
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):  # and not the block of an activation
                cell.reset()

    # --- states --------------------------------------------------------------------------------------------

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """The shape and the layout of each state, as dicts: ``[{'shape': (2, 8), '__layout__': 'NC'}]``.

        Parameters
        ----------
        batch_size:
            The number of rows; 0: it is left open.
        """
        raise NotImplementedError(f"{type(self).__name__} must override state_info(self, batch_size=0)")

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> list[Any]:
        """The states before the first step, a list: ``func(name=, shape=, **kwargs)`` for each.

        A modified cell, as that of a ZoneoutCell, is a CheckError: ask the modifier.

        Parameters
        ----------
        batch_size:
            The number of rows; functions of ``mx.nd`` need it, for symbols it follows from the inputs and is left
            at 0.
        func:
            What makes a state: a function of ``mx.nd`` or ``mx.sym``, as ``mx.nd.ones``, or yours, which gets
            ``name``, ``shape`` and ``__layout__``.
        **kwargs:
            Further keywords of ``func``, as ``ctx`` and ``dtype``.
        """
        self._check_unmodified()
        states: list[Any] = []
        for info in self.state_info(batch_size):
            number = vars(self)["_init_counter"] = vars(self)["_init_counter"] + 1
            options: dict[str, Any] = {**(info or {}), **kwargs}
            if _is_ours(func) and not _composes(func):  # these take no names and no layouts
                options = {k: v for k, v in options.items() if not k.startswith("__")}
            else:
                options["name"] = f"{self._prefix}begin_state_{number}"
            states.append(func(**options))
        return as_default(states) if func is nd.zeros else states

    def _check_unmodified(self) -> None:
        if self._modified:
            raise CheckError(
                f"{label(self)}: After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called "
                "directly. Call the modifier cell instead."
            )

    def _states(self, inputs: Any, states: Any) -> list[Any]:
        """The states of a step, checked."""
        found = self._listed(states)
        for number, state in enumerate(found):
            if not is_array(state):
                raise ArgumentTypeError(
                    f"{label(self)}: state {number} must be an array or a symbol, got {brief(state)}"
                )
        shape = None if not is_array(inputs) else shape_of(inputs)
        if not shape:
            return found
        infos = self.state_info(shape[0])
        for number, (state, info) in enumerate(zip(found, infos, strict=True)):
            wanted, got = info["shape"], shape_of(state)
            if got is not None and (len(got) != len(wanted) or any(n not in (0, m) for n, m in zip(wanted, got))):
                raise ShapeError(
                    f"{label(self)}: state {number} must have shape {wanted} for inputs {shape}, got {got}; "
                    f"begin_state(batch_size={shape[0]}) makes such states"
                )
        return found

    def _listed(self, states: Any) -> list[Any]:
        """A list of as many states as the cell has."""
        count = len(self.state_info())
        if isinstance(states, ComposedSymbol) and states.num_outputs == count > 1:
            return list(states)
        if not isinstance(states, list | tuple):
            raise ArgumentTypeError(
                f"{label(self)}: states must be a list of {count}, got {brief(states)}; make it with begin_state(…)"
            )
        found: list[Any] = list(cast("Sequence[Any]", states))
        if self._modified and len(found) > count:  # a user's modifier may have states of its own behind these
            return found[:count]
        if len(found) != count:
            raise CheckError(f"{label(self)}: {type(self).__name__} has {_states(count)}, got {len(found)}")
        return found

    def _keeps(self) -> bool:
        """Whether a step now leaves values for the next that are no states, in this cell or in one below."""
        return STATE.training and any(
            cell._keeps() for cell in self._children.values() if isinstance(cell, RecurrentCell)
        )

    # --- steps ---------------------------------------------------------------------------------------------

    def forward(self, *args: Any) -> tuple[NDArray, list[NDArray]]:
        """One step: ``(inputs, states)`` → ``(output, states)``."""
        self._step(args)
        return super().forward(*args)

    def _parameter(self, name: str, shape: tuple[int, ...], init: Any) -> None:
        """Make a parameter, whose shape may follow from the first inputs."""
        setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _step(self, args: Sequence[Any]) -> None:
        """Count a step, which takes its inputs and the states."""
        vars(self)["_counter"] += 1
        if len(args) != 2:
            raise TypeError(
                f"{label(self)}: a cell takes its inputs and its states, got {len(args)} arguments; call "
                "cell(inputs, cell.begin_state(batch_size=…))"
            )

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """The outputs of all steps, and the states after the last: a reset, then ``length`` calls of the cell.

        What does not fit (inputs with another number of steps, lengths of another shape) is a CheckError, ShapeError or
        AttributeValueError that names the cell.

        Parameters
        ----------
        length:
            The number of steps, at least 1.
        inputs:
            The sequence: one array with its axes in the order of ``layout``, or a list with an array (N, features)
            for each step.
        begin_state:
            The states before the first step; None: zeros.
        layout:
            The axes of sequences: "NTC" or "TNC", N the batch, T the steps, C the features.
        merge_outputs:
            Whether the outputs are one array, or a list with one for each step; None: a list, but one array if
            ``valid_length`` is given.
        valid_length:
            An array (N,) with the length of each row; None: all are of full length. Outputs after the end of a row
            are 0, and the states are those of each row's last step.
        """
        self.reset()
        steps = self._begin(length, inputs, layout, valid_length)
        states = self._begin_states(steps, begin_state)
        outputs: list[Any] = []
        kept: list[Any] = []
        for x in steps.split(inputs):
            output, states = self(x, states)
            outputs.append(output)
            kept.append(states)
        if valid_length is None:
            return steps.formed(outputs, merge_outputs), states
        states = [steps.last(each, valid_length) for each in zip(*kept, strict=True)]
        return steps.formed(steps.masked(outputs, valid_length), merge_outputs), states

    def _begin(self, length: int, inputs: Any, layout: str, valid_length: Any) -> UnrolledSteps:
        """How to unroll these inputs."""
        steps = UnrolledSteps(label(self), length, inputs, layout)
        steps.check_lengths(label(self), valid_length)
        return steps

    def _begin_states(self, steps: UnrolledSteps, begin_state: Any) -> Any:
        return begin_states(self, steps.F, begin_state, steps.first, steps.batch_size)

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """An activation by its name, a function, or a block."""
        if activation in _FUNCTIONS:
            return getattr(F, activation)(inputs, **kwargs)
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        # COMPAT(mxnet): there it is called with name=, which no block takes.
        return activation(inputs)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A cell that can be compiled: override ``hybrid_forward(self, F, inputs, states, **params)``, ``state_info``."""

    def __call__(self, *args: Any) -> tuple[NDArray, list[NDArray]]:
        """One step, which is compiled if the cell is hybridized and keeps nothing for the next."""
        if self._active and args and isinstance(args[0], NDArray) and STATE.trace is None and self._keeps():
            # COMPAT(mxnet): there what it keeps is lost, and the masks of every step are others.
            return Block.__call__(self, *args)
        return super().__call__(*args)

    def hybrid_forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, F: Any, inputs: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Override to compute the output and the states with the functions of ``F``."""
        raise NotImplementedError(f"{type(self).__name__} must override hybrid_forward(self, F, inputs, states)")


def begin_states(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:
    """The states given, or else zeros like these inputs."""
    if begin_state is not None:
        return begin_state
    options: dict[str, Any] = {"func": F.zeros, "batch_size": batch_size}
    # A composed symbol has no dtype: its inputs are to have that of the parameters.
    weights = cell.collect_params().values() if isinstance(inputs, ComposedSymbol) else [inputs]
    dtype = next((x.dtype for x in weights), np.float32)
    if dtype is not np.float32 and is_float(np.dtype(dtype)):
        # COMPAT(mxnet): there they are float32 even if the inputs are not.
        options["dtype"] = dtype
    with Context(inputs.context) if isinstance(inputs, NDArray) else contextlib.nullcontext():
        return cell.begin_state(**options)


@contextlib.contextmanager
def unmodified(cell: RecurrentCell) -> Generator[None]:
    """Inside the ``with`` block a modifier may do with its cell what others may not."""
    vars(cell)["_modified"] = False
    try:
        yield
    finally:
        vars(cell)["_modified"] = True


def state_infos(cells: Iterable[Any], batch_size: int) -> list[Any]:
    """What the states of several cells are."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def shares(cells: Iterable[Any], states: Sequence[Any]) -> Generator[tuple[Any, list[Any]]]:
    """The cells, each with its own of the states of all."""
    start = 0
    for cell in cells:
        count = len(cell.state_info())
        yield cell, list(states[start : start + count])
        start += count


def _states(count: int) -> str:
    return "one state" if count == 1 else f"{count or 'no'} states"


def _is_ours(func: Any) -> bool:
    return getattr(func, "__module__", "").startswith("hybridc.")


def _composes(func: Any) -> bool:
    """Whether a function of ours makes symbols that have names: those of ``mx.sym``, which wrap those of ``mx.nd``."""
    written_in: str = getattr(func, "__globals__", {}).get("__name__", "")
    return func is var or (composing() and written_in.startswith("hybridc.symbol."))
