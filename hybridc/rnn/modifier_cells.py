"""Cells that change what another cell does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridc import symbol
from hybridc.errors import CheckError
from hybridc.rnn.base_cell import Arrays, BaseRNNCell, RNNParams, normalized
from hybridc.rnn.cell_groups import BidirectionalCell
from hybridc.rnn.fused_cell import FusedRNNCell
from hybridc.symbol import ComposedSymbol


class ModifierCell(BaseRNNCell):
    """The base of cells that modify ``base_cell``, which must not be called itself any more.

    Parameters
    ----------
    base_cell:
        The cell.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        """Those of the base cell."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[Any]:
        """That of the base cell."""
        return self.base_cell.state_info

    def begin_state(  # pyright: ignore[reportIncompatibleMethodOverride] - MXNet's other name
        self, init_sym: Callable[..., Any] = symbol.zeros, **kwargs: Any
    ) -> list[Any]:
        """Those of the base cell, by the function ``init_sym``."""
        self._check_unmodified()
        # COMPAT(mxnet): there a group of cells that has this one cannot pass it a function.
        function = kwargs.pop("func", init_sym)
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=function, **kwargs)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Arrays) -> dict[str, Any]:
        """Of the base cell."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Arrays) -> dict[str, Any]:
        """Of the base cell."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """In training, some outputs and states of the base cell stay as they were in the step before.

    Krueger et al. 2016, arXiv:1606.01305.

    Parameters
    ----------
    base_cell:
        The cell, which has steps: a FusedRNNCell or a BidirectionalCell is a CheckError.
    zoneout_outputs, zoneout_states:
        The probabilities that an output, or a state, stays.
    """

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        if isinstance(base_cell, FusedRNNCell):
            raise CheckError("ZoneoutCell: a FusedRNNCell has no steps; call unfuse() first")
        if _has_bidirectional(base_cell):
            raise CheckError("ZoneoutCell: a BidirectionalCell has no steps; modify the cells inside it instead")
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def reset(self) -> None:
        """There is no output before the first step."""
        super().reset()
        self.prev_output: Any = None

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        output, after = self.base_cell(inputs, states)
        if self.zoneout_outputs:
            before = symbol.zeros((0, 0)) if self.prev_output is None else self.prev_output
            output = symbol.where(_mask(self.zoneout_outputs, output), output, before)
        if self.zoneout_states:
            p = self.zoneout_states
            after = [symbol.where(_mask(p, new), new, old) for new, old in zip(after, states, strict=True)]
        self.prev_output = output
        return output, after


def _mask(p: float, like: Any) -> Any:
    return symbol.Dropout(symbol.ones_like(like), p=p)


def _has_bidirectional(cell: BaseRNNCell) -> bool:
    return isinstance(cell, BidirectionalCell) or any(map(_has_bidirectional, cell.inner_cells()))


class ResidualCell(ModifierCell):
    """The output of the base cell plus the inputs. Wu et al. 2016, arXiv:1609.08144."""

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        output, states = self.base_cell(inputs, states)
        return _plus(output, inputs), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """The base cell is unrolled."""
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        finally:
            self.base_cell._modified = True
        merged = isinstance(outputs, ComposedSymbol)
        inputs, _ = normalized(length, inputs, layout, merged)
        if merged:
            return _plus(outputs, inputs), states
        return [_plus(x, y) for x, y in zip(outputs, inputs, strict=True)], states


def _plus(output: Any, inputs: Any) -> Any:
    return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")
