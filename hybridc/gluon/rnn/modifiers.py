"""Dropout as a cell, and cells that change what another one does."""

from __future__ import annotations

from typing import Any, ClassVar

from hybridc import autograd, nd
from hybridc.array.ndarray import NDArray
from hybridc.errors import CheckError, ShapeError, TraceError
from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell, RecurrentCell, unmodified
from hybridc.gluon.rnn.sequences import is_array, shape_of
from hybridc.gluon.rnn.stacks import has_bidirectional
from hybridc.ground.state import STATE
from hybridc.symbol.composed import ComposedSymbol
from hybridc.trace.traced import TracedSymbol


class DropoutCell(HybridRecurrentCell):
    """In train mode each element becomes 0 with probability ``rate``, or is multiplied by ``1 / (1 - rate)``; no states

    It is a cell for a stack, as ``nn.Dropout`` is a layer. The result has the shape of the inputs.

    Parameters
    ----------
    rate:
        The probability that an element becomes 0, from 0 to 1; what is no number is a CheckError.
    axes:
        The axes along which elements share their fate: those of a step (N, C), or, where one array is unrolled, of
        the whole sequence.

    Examples
    --------
    >>> stack = gluon.rnn.SequentialRNNCell()
    >>> stack.add(gluon.rnn.LSTMCell(8))
    >>> stack.add(gluon.rnn.DropoutCell(0.5))
    >>> stack.add(gluon.rnn.LSTMCell(8))
    >>> stack.initialize()
    >>> outputs, states = stack.unroll(5, mx.nd.ones((2, 5, 3)), merge_outputs=True)
    >>> outputs.shape, len(states)
    ((2, 5, 8), 4)
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(rate, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"{self.name}: rate must be a number, got {rate!r}")
        self._rate = rate
        self._axes = axes

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """No states: an empty list."""
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """The inputs with dropout, and the states as they are."""
        self._listed(states)
        if self._rate > 0:
            inputs = F.Dropout(inputs, p=self._rate, axes=self._axes, name=f"t{vars(self)['_counter']}_fwd")
        return inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """The inputs with dropout, of all steps at once if they are one array or are merged."""
        steps = self._begin(length, inputs, layout, valid_length)
        inputs = steps.formed(inputs, merge_outputs)
        if not is_array(inputs):
            return super().unroll(length, inputs, begin_state or [], layout, merge_outputs)
        self.reset()
        return self.hybrid_forward(steps.F, inputs, begin_state or [])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"


class ModifierCell(HybridRecurrentCell):
    """The base of cells that change what another cell does, as ``ZoneoutCell(LSTMCell(10))``

    They have the parameters and states of the other cell. From then on that one must not be called directly: that is a
    CheckError. Override ``hybrid_forward(self, F, inputs, states)``, which calls ``self.base_cell``.

    Parameters
    ----------
    base_cell:
        The cell that is changed; one that is changed already, or is no cell, is a CheckError.
    """

    KEPT: ClassVar[tuple[str, ...]] = ()  # the attributes that are kept from step to step

    def __init__(self, base_cell: Any) -> None:
        if not isinstance(base_cell, RecurrentCell):
            raise CheckError(f"{type(self).__name__}: base_cell must be a cell, got {type(base_cell).__name__}")
        if base_cell._modified:
            raise CheckError(f"Cell {base_cell.name} is already modified. One cell cannot be modified twice")
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell
        base_cell._modified = True

    @property
    def params(self) -> Any:
        """Those of the cell that it changes."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """The states of the cell that it changes."""
        return self.base_cell.state_info(batch_size)

    # COMPAT(mxnet): there func is mx.sym.zeros unless it is given, and arrays cannot be used with it.
    def begin_state(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, func: Any = nd.zeros, **kwargs: Any
    ) -> list[Any]:
        """The states of the cell that it changes before the first step.

        Parameters
        ----------
        **kwargs:
            The ``batch_size``, and further keywords of ``func``.
        """
        self._check_unmodified()
        with unmodified(self.base_cell):
            return self.base_cell.begin_state(func=func, **kwargs)

    def _base_unrolled(self, length: int, inputs: Any, states: Any, layout: str, merge: Any, lengths: Any) -> Any:
        """The cell that it changes, unrolled."""
        with unmodified(self.base_cell):
            return self.base_cell.unroll(
                length,
                inputs=inputs,
                begin_state=states,
                layout=layout,
                merge_outputs=merge,
                valid_length=lengths,
            )

    def reset(self) -> None:
        """Forget what was kept of the steps before."""
        super().reset()
        for name in self.KEPT:
            setattr(self, name, None)
        vars(self)["_began_in"] = id(STATE.trace)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what was kept of the steps before."""
        return {**super().__getstate__(), **dict.fromkeys(self.KEPT)}

    def _kept(self, name: str, like: Any) -> Any:
        """What an attribute keeps from the steps before, or None; it must be of the same sequence as ``like``."""
        if isinstance(like, TracedSymbol) and vars(self)["_began_in"] != id(like.trace):
            raise TraceError(
                f"{self.name}: {type(self).__name__} keeps values from step to step, which a step that is compiled "
                "alone cannot; unroll it, or call its reset() and all its steps inside the block that is compiled"
            )
        value = getattr(self, name)
        if value is None:
            return None
        if isinstance(like, NDArray):
            fits = isinstance(value, NDArray) and value.shape == like.shape
        else:
            fits = not isinstance(value, NDArray) and value.trace is like.trace
        if not fits:
            raise TraceError(
                f"{self.name}: {name} is kept from a step of another batch, or of a compiled call; call reset() before "
                "the first step of every sequence, as unroll does"
            )
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell!r})"


def drops(like: Any) -> bool:
    """Whether dropout does anything now; a composed symbol may run in train mode later."""
    return isinstance(like, ComposedSymbol) or autograd.is_training()


class ZoneoutCell(ModifierCell):
    """In train mode, elements of the output and of the states keep their last values at random (Krueger et al. 2016)

    Otherwise it does what ``base_cell`` does. Before the first step the last output is 0.

    Parameters
    ----------
    zoneout_outputs:
        The probability that an element of the output stays that of the step before.
    zoneout_states:
        The probability that an element of a state stays that of the step before.

    Examples
    --------
    >>> sums = gluon.rnn.RNNCell(1, "relu", i2h_weight_initializer="ones", h2h_weight_initializer="ones")
    >>> cell = gluon.rnn.ZoneoutCell(sums, zoneout_outputs=0.5)
    >>> cell.initialize()
    >>> x = mx.nd.array([[[1], [2], [3]]])
    >>> outputs, states = cell.unroll(3, x, merge_outputs=True)
    >>> outputs.reshape(-1)
    [1. 3. 6.]
    <NDArray 3 @cpu(0)>

    In train mode, here, the last output stays that of the step before:

    >>> mx.random.seed(3)
    >>> with autograd.record():
    ...     outputs, states = cell.unroll(3, x, merge_outputs=True)
    >>> outputs.reshape(-1)
    [1. 3. 3.]
    <NDArray 3 @cpu(0)>
    """

    KEPT = ("_prev_output",)

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        check_steps(base_cell, "zoneout", type(self).__name__)
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def _keeps(self) -> bool:
        return (STATE.training and self.zoneout_outputs != 0.0) or super()._keeps()

    def _alias(self) -> str:
        return "zoneout"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """The output and the states, with elements of before."""
        before = self._states(inputs, states)
        output, after = self.base_cell(inputs, before)
        if not drops(output):
            return output, after
        if self.zoneout_outputs != 0.0:
            last = self._kept("_prev_output", output)
            last = F.zeros_like(output) if last is None else last
            output = self._mixed(F, self.zoneout_outputs, output, last)
            self._prev_output = output
        if self.zoneout_states != 0.0:
            after = [self._mixed(F, self.zoneout_states, b, a) for a, b in zip(before, after, strict=True)]
        return output, after

    def _mixed(self, F: Any, rate: float, new: Any, old: Any) -> Any:
        return F.where(F.Dropout(F.ones_like(new), p=rate), new, old)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell!r})"


def check_steps(cell: Any, what: str, name: str) -> None:
    """Refuse a cell that cannot be stepped."""
    # COMPAT(mxnet): there a SequentialRNNCell is asked for an attribute that it does not have.
    if isinstance(cell, RecurrentCell) and has_bidirectional(cell):
        raise CheckError(
            f"BidirectionalCell doesn't support {what} since it doesn't support step. Please add {name} to the cells "
            "underneath instead."
        )


class ResidualCell(ModifierCell):
    """The output of ``base_cell`` plus its inputs, which have the same shape (Wu et al. 2016)

    The states are those of base_cell. Give it as many units as the inputs have features: other shapes are a ShapeError.

    Examples
    --------
    >>> sums = gluon.rnn.RNNCell(1, "relu", i2h_weight_initializer="ones", h2h_weight_initializer="ones")
    >>> cell = gluon.rnn.ResidualCell(sums)
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(3, mx.nd.array([[[1], [2], [3]]]), merge_outputs=True)

    The sums 1, 3 and 6 of the steps, plus the steps:

    >>> outputs.reshape(-1)
    [2. 5. 9.]
    <NDArray 3 @cpu(0)>
    """

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """The output plus the inputs, and the states."""
        output, states = self.base_cell(inputs, states)
        return self._sum(F, output, inputs, name=f"t{vars(self)['_counter']}_fwd"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """``base_cell`` unrolled, plus the inputs; these count as 0 after the end of each row."""
        self.reset()
        steps = self._begin(length, inputs, layout, valid_length)
        outputs, states = self._base_unrolled(length, inputs, begin_state, layout, merge_outputs, valid_length)
        merge = is_array(outputs)
        inputs = steps.formed(inputs, merge) if valid_length is None else steps.masked(inputs, valid_length, merge)
        if merge:
            return self._sum(steps.F, outputs, inputs), states
        return [self._sum(steps.F, a, b) for a, b in zip(outputs, inputs, strict=True)], states

    def _sum(self, F: Any, output: Any, inputs: Any, **options: Any) -> Any:
        wanted, got = shape_of(inputs), shape_of(output)
        if None not in (wanted, got) and wanted != got:
            raise ShapeError(
                f"{self.name}: the output of {self.base_cell.name}, to which inputs {wanted} are added, must have "
                f"their shape, got {got}; give the cell as many units as the inputs have"
            )
        return F.elemwise_add(output, inputs, **options)
