"""Cells that run other cells: one after the other, and one from each end of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hybridc import nd
from hybridc.errors import CheckError
from hybridc.gluon.block import Block
from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell, RecurrentCell, shares, state_infos
from hybridc.gluon.rnn.sequences import is_array, label
from hybridc.gluon.utils import indent


class _Several(RecurrentCell):
    """The base of cells whose states are those of their children, one after the other."""

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """The states of all cells."""
        return state_infos(self._children.values(), batch_size)

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> list[Any]:
        """The states of all cells before the first step, those of the first cell first."""
        self._check_unmodified()
        states: list[Any] = []
        for cell in self._children.values():
            states += cast("Any", cell).begin_state(batch_size=batch_size, func=func, **kwargs)
        return states


class _InOrder(_Several):
    """The base of SequentialRNNCell and HybridSequentialRNNCell."""

    def add(self, cell: Any) -> None:
        """Put a cell on top of the stack.

        Parameters
        ----------
        cell:
            The cell; what is no cell is a CheckError.
        """
        if not isinstance(cell, RecurrentCell):
            raise CheckError(f"{self.name}: a stack of cells takes cells only, got {type(cell).__name__}")
        self.register_child(cell)

    def _in_order(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        for cell in self._children.values():
            if isinstance(cell, BidirectionalCell):
                cell._refuse_step()
        after: list[Any] = []
        for cell, own in shares(self._children.values(), self._listed(states)):
            inputs, own = cell(inputs, own)
            after += own
        return inputs, after

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Each cell unrolled over the outputs of the one below."""
        self.reset()
        steps = self._begin(length, inputs, layout, valid_length)
        states = self._listed(self._begin_states(steps, begin_state))
        after: list[Any] = []
        for number, (cell, own) in enumerate(shares(self._children.values(), states), 1):
            inputs, own = cell.unroll(
                length,
                inputs=inputs,
                begin_state=own,
                layout=layout,
                merge_outputs=merge_outputs if number == len(self) else None,
                valid_length=valid_length,
            )
            after += own
        return inputs, after

    def __getitem__(self, key: Any) -> Any:
        return cast("Any", list(self._children.values())[key])

    def __len__(self) -> int:
        return len(self._children)

    def __bool__(self) -> bool:
        return True  # an empty stack is a cell

    def __repr__(self) -> str:
        lines = "\n".join(f"({name}): {indent(repr(cell), 2)}" for name, cell in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"


class SequentialRNNCell(_InOrder):
    """Cells of any kind one after the other, each on the outputs of the one below.

    The states are those of all cells, in order. ``len(stack)`` and ``stack[1]`` work as of a list.

    Examples
    --------
    >>> stack = gluon.rnn.SequentialRNNCell()
    >>> stack.add(gluon.rnn.LSTMCell(8))
    >>> stack.add(gluon.rnn.GRUCell(4))
    >>> stack.initialize()
    >>> output, states = stack(mx.nd.ones((2, 3)), stack.begin_state(batch_size=2))
    >>> output.shape, [state.shape for state in states]
    ((2, 4), [(2, 8), (2, 8), (2, 4)])
    """

    def forward(self, *args: Any) -> Any:
        """One step of every cell."""
        self._step(args)
        return self._in_order(*args)

    def hybrid_forward(self, *args: Any, **kwargs: Any) -> Any:
        """Not possible: its cells may be of any kind; :class:`HybridSequentialRNNCell` is compiled."""
        raise NotImplementedError("SequentialRNNCell has no hybrid_forward; use HybridSequentialRNNCell")


class HybridSequentialRNNCell(_InOrder, HybridRecurrentCell):
    """Cells one after the other, each on the outputs of the one below; ``hybridize`` compiles a step as one graph.

    The states are those of all cells, in order. ``len(stack)`` and ``stack[1]`` work as of a list.

    Examples
    --------
    >>> stack = gluon.rnn.HybridSequentialRNNCell()
    >>> for size in (8, 4):
    ...     stack.add(gluon.rnn.GRUCell(size))
    >>> stack.initialize()
    >>> stack.hybridize()
    >>> output, states = stack(mx.nd.ones((2, 3)), stack.begin_state(batch_size=2))
    >>> output.shape
    (2, 4)
    """

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """One step of every cell."""
        return self._in_order(inputs, states)


class BidirectionalCell(_Several, HybridRecurrentCell):
    """Two cells: ``l_cell`` runs from the beginning, ``r_cell`` from the end, and their outputs are joined.

    Outputs are joined along the features: (N, T, features of l_cell + features of r_cell). It sees whole sequences, so
    it can only be unrolled: a call is a NotImplementedError. The states are those of l_cell, then of r_cell. With
    ``valid_length`` r_cell begins at the end of each row.

    Parameters
    ----------
    l_cell:
        The cell of the forward direction.
    r_cell:
        The cell of the backward direction.
    output_prefix:
        The beginning of the names of outputs, of symbols.

    Examples
    --------
    >>> options = {"i2h_weight_initializer": "ones", "h2h_weight_initializer": "ones"}
    >>> forwards, backwards = (gluon.rnn.RNNCell(1, "relu", **options) for _ in range(2))
    >>> cell = gluon.rnn.BidirectionalCell(forwards, backwards)
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(3, mx.nd.array([[[1], [2], [3]]]), merge_outputs=True)

    Sums from the beginning, and from the end:

    >>> outputs
    [[[1. 6.]
      [3. 5.]
      [6. 3.]]]
    <NDArray 1x3x2 @cpu(0)>
    """

    def __init__(self, l_cell: RecurrentCell, r_cell: RecurrentCell, output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._refuse_step()

    def _refuse_step(self) -> None:
        """Raise: it has to see the whole sequence."""
        raise NotImplementedError(f"{label(self)}: Bidirectional cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Both cells unrolled, ``r_cell`` over the sequence from its end."""
        self.reset()
        steps = self._begin(length, inputs, layout, valid_length)
        forwards = steps.split(inputs)
        states = self._listed(self._begin_states(steps, begin_state))
        (l_cell, l_states), (r_cell, r_states) = shares(self._children.values(), states)
        options: dict[str, Any] = {"layout": layout, "valid_length": valid_length}
        l_outputs, l_states = l_cell.unroll(
            length, inputs=forwards, begin_state=l_states, merge_outputs=merge_outputs, **options
        )
        r_outputs, r_states = r_cell.unroll(
            length,
            inputs=steps.reversed(forwards, valid_length),
            begin_state=r_states,
            merge_outputs=False,
            **options,
        )
        r_outputs = steps.reversed(r_outputs, valid_length)
        # COMPAT(mxnet): with lengths, layout NTC and merge_outputs=None the second cell's outputs are transposed there.
        merge = is_array(l_outputs) if merge_outputs is None else merge_outputs
        outputs = self._joined(steps.F, steps.formed(l_outputs, merge), steps.formed(r_outputs, merge))
        if valid_length is not None:
            outputs = steps.masked(outputs, valid_length, merge)
        return outputs, [*l_states, *r_states]

    def _joined(self, F: Any, left: Any, right: Any) -> Any:
        """The outputs of both, as whole sequences or step by step."""
        if is_array(left):
            return F.concat(left, right, dim=2, name=f"{self._output_prefix}out")
        return [
            F.concat(a, b, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (a, b) in enumerate(zip(left, right, strict=True))
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(forward={self._children['l_cell']}, backward={self._children['r_cell']})"


def has_bidirectional(cell: Block) -> bool:
    """Whether a cell is, or has below it, one that cannot be stepped."""
    return isinstance(cell, BidirectionalCell) or any(map(has_bidirectional, cell._children.values()))
