"""Cells made of cells: one on the other, and one in each direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc import symbol
from hybridc.errors import CheckError
from hybridc.rnn.base_cell import Arrays, BaseRNNCell, RNNParams, normalized, parts
from hybridc.symbol import ComposedSymbol


class _Group(BaseRNNCell):
    """Several cells, which have their states one after the other, and one dict of variables."""

    def __init__(self, params: RNNParams | None, cells: Sequence[BaseRNNCell] = ()) -> None:
        self._cells: list[BaseRNNCell] = []
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None
        for cell in cells:
            self._join(cell)

    def _join(self, cell: BaseRNNCell) -> None:
        if self._override_cell_params:
            if not cell._own_params:
                raise CheckError(f"{type(self).__name__}: give params to it or to its cells, not to both")
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)
        self._cells.append(cell)

    def inner_cells(self) -> Sequence[BaseRNNCell]:
        """The cells, in order."""
        return self._cells

    @property
    def state_info(self) -> list[Any]:
        """Those of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(  # pyright: ignore[reportIncompatibleMethodOverride] - keywords only, as in MXNet
        self, **kwargs: Any
    ) -> list[Any]:
        """Those of all cells."""
        self._check_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def unpack_weights(self, args: Arrays) -> dict[str, Any]:
        """The weights of every cell, unpacked."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return dict(args)

    def pack_weights(self, args: Arrays) -> dict[str, Any]:
        """The weights of every cell, packed."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return dict(args)

    def _divided(self, states: Sequence[Any]) -> list[Any]:
        """The states of each cell."""
        found: list[Any] = []
        for cell in self._cells:
            count = len(cell.state_info)
            found.append(states[:count])
            states = states[count:]
        return found


class SequentialRNNCell(_Group):
    """A stack of cells: the outputs of each are the inputs of the next.

    Parameters
    ----------
    params:
        The variables of another cell, to share them; None is those of the cells.
    """

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__(params)

    def add(self, cell: BaseRNNCell) -> None:
        """Add ``cell`` on top of the stack."""
        self._join(cell)

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        self._counter += 1
        last: list[Any] = []
        for cell, own in zip(self._cells, self._divided(states), strict=True):
            inputs, after = cell(inputs, own)
            last += after
        return inputs, last

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Each cell is unrolled, then the next."""
        self.reset()
        begin_state = self.begin_state() if begin_state is None else begin_state
        last: list[Any] = []
        for i, (cell, own) in enumerate(zip(self._cells, self._divided(begin_state), strict=True), 1):
            merge = merge_outputs if i == len(self._cells) else None
            inputs, after = cell.unroll(length, inputs, begin_state=own, layout=layout, merge_outputs=merge)
            last += after
        return inputs, last


class BidirectionalCell(_Group):
    """A cell from the first step to the last and one from the last to the first; their outputs are concatenated.

    It can be unrolled only.

    Parameters
    ----------
    l_cell:
        The cell from the first step to the last.
    r_cell:
        The cell from the last step to the first.
    params:
        The variables of another cell, to share them; None is those of the cells.
    output_prefix:
        With what the names of outputs begin.
    """

    def __init__(
        self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: RNNParams | None = None, output_prefix: str = "bi_"
    ) -> None:
        super().__init__(params, [l_cell, r_cell])
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Raises: it needs all steps."""
        raise NotImplementedError("BidirectionalCell cannot be stepped: it needs all steps; use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """The outputs of both directions; the states are a list of those of each."""
        self.reset()
        steps, axis = normalized(length, inputs, layout, merge=False)
        divided = self._divided(self.begin_state() if begin_state is None else begin_state)
        options: dict[str, Any] = {"layout": layout, "merge_outputs": merge_outputs}
        left, right = self._cells
        forward, states = left.unroll(length, steps, begin_state=divided[0], **options)
        backward, others = right.unroll(length, steps[::-1], begin_state=divided[1], **options)
        both = [forward, backward]
        merged = all(isinstance(x, ComposedSymbol) for x in both) if merge_outputs is None else merge_outputs
        if merged:
            name = f"{self._output_prefix}out"
            return symbol.Concat(both[0], symbol.reverse(both[1], axis=axis), dim=2, name=name), [states, others]
        forward, backward = [parts(x, axis, length) if isinstance(x, ComposedSymbol) else x for x in both]
        outputs = [
            symbol.Concat(x, y, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (x, y) in enumerate(zip(forward, reversed(backward), strict=True))
        ]
        return outputs, [states, others]
