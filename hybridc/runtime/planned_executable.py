"""Executables of planned programs on NumPy arrays: converts arguments, finds results in slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from hybridc.ir.planned import ARENA, OperatorState, PlannedProgram, SlotView
from hybridc.runtime.executable import Executable
from hybridc.runtime.workspace import ViewOwner, plain


class PlannedExecutable(Executable):
    """A planned program: ``_make(workspace, into, *arrays)`` returns a tuple of its fresh arrays.

    ``into`` is None, or an output buffer or None for each of them. It returns NotImplemented if an array is not as
    declared in the program.
    """

    _make: Any

    def __init__(self, program: PlannedProgram, constants: Sequence[Any]) -> None:
        """``constants`` are the program's, in memory where ``_make`` reads them."""
        super().__init__(program)
        self.planned = program
        self._donated = program.donated
        self._into = program.into if program.takes_into else None
        first = 1 + len(program.inputs)
        slots = [v.slot - first if isinstance(v, SlotView) else -1 for v in program.outputs]
        in_order = slots == list(range(len(program.fresh)))
        self._outputs = [
            _fetch(program, constants, view, index, self.view_owner) for index, view in enumerate(program.outputs)
        ]
        whole = [_whole(program, view) for view in program.outputs]
        #: Picks the results out of arguments and fresh arrays, if all are among them.
        self._pick = itemgetter(*[n for n in whole if n is not None]) if len(whole) > 1 and None not in whole else None
        #: Whether the results are exactly the fresh arrays.
        self.is_direct = in_order and all(index == i for i, index in enumerate(program.into)) and self._into is None

    def run(self, workspace: Any, *arrays: Any) -> Any:
        """The results of one call."""
        places: Sequence[Any] = ()
        into = None
        if self._into is not None:
            places, *arrays = arrays  # pyright: ignore[reportAssignmentType]  (a list is as good)
            into = self._given(places) if any(x is not None for x in places) else None
        fresh = self._make(workspace, into, *arrays)
        if fresh is NotImplemented:
            fresh = self._conform(workspace, into, arrays)
        results = self.results(workspace, arrays, fresh)
        if into is not None:
            for index in self.planned.into:
                if index is not None and places[index] is not None:
                    results[index] = places[index]
        return results

    def results(self, workspace: Any, arrays: Sequence[Any], fresh: Sequence[Any]) -> list[Any]:
        """The results of a call, given its fresh arrays."""
        if self._pick is not None:
            return list(self._pick((*arrays, *fresh)))
        return [fetch(workspace, arrays, fresh) for fetch in self._outputs]

    def _given(self, places: Sequence[Any]) -> Any:
        """The caller's output buffers, in the order of the fresh arrays that they replace."""
        assert self._into is not None
        buffers: list[Any] = []
        for index, array in zip(self._into, self.planned.fresh, strict=True):
            x = None if index is None else places[index]
            buffers.append(x if x is None or x.shape == array.shape else x.reshape(array.shape))
        return tuple(buffers)

    def _conform(self, workspace: Any, into: Any, arrays: Sequence[Any]) -> Any:
        """The call on contiguous copies of views; donated and output views are written back."""
        plan = self.planned.inputs
        plain = [_plain(x, a.dtype) for x, a in zip(arrays, plan, strict=True)]
        fresh = self._make(workspace, into, *plain)
        if fresh is NotImplemented:
            got, expected = (", ".join(f"{x.dtype}{list(x.shape)}" for x in row) for row in (plain, plan))
            raise TypeError(f"{self.planned.name} is compiled for {expected}, got {got}")
        for i in self._donated:
            if plain[i] is not arrays[i]:
                np.copyto(arrays[i], plain[i])
        return fresh

    def line_of(self, error: BaseException) -> str:
        """The source line that the host call has recorded."""
        return str(getattr(error, "__hybridc_line__", ""))


def _plain(array: Any, dtype: Any) -> Any:
    """An aligned array in C order of exactly this dtype: the array itself, or a copy; device arrays are plain."""
    if not _is_numpys(array):
        return array
    flags = array.flags
    if type(array) is np.ndarray and flags.c_contiguous and flags.aligned and array.dtype == dtype:
        return array
    return np.array(array, dtype=dtype, order="C", copy=True, subok=False)


def _is_numpys(array: Any) -> bool:
    return isinstance(array, np.ndarray)


def _over(view: SlotView, base: Any) -> Any:
    """The array of a slot view, given the slot's array, of NumPy or of a GPU."""
    return np.asarray(view.over(base)) if _is_numpys(base) else base.over(view)


def _whole(program: PlannedProgram, view: SlotView | OperatorState) -> int | None:
    """The index, among arguments and then fresh arrays, of the array that a result is; None if it is none."""
    arrays = [*program.inputs, *program.fresh]
    if isinstance(view, OperatorState) or not 1 <= view.slot <= len(arrays) or not view.is_plain:
        return None
    return view.slot - 1 if view.shape == arrays[view.slot - 1].shape else None


def _fetch(
    program: PlannedProgram, constants: Sequence[Any], view: SlotView | OperatorState, index: int, owner: ViewOwner
) -> Callable[[Any, Sequence[Any], Sequence[Any]], Any]:
    """A function that fetches a result after a call, from its workspace, its arguments and its fresh arrays."""
    if isinstance(view, OperatorState):
        return lambda workspace, _arrays, _fresh: view.of(workspace)
    inputs = len(program.inputs)
    at = view.slot - 1 - inputs
    whole = _whole(program, view)

    def kept(workspace: Any, _arrays: Sequence[Any], _fresh: Sequence[Any]) -> Any:
        views = workspace.views(owner)
        if index not in views:
            views[index] = _over(view, plain(workspace) if _is_numpys(workspace) else workspace)
        return views[index]

    def argument(_workspace: Any, arrays: Sequence[Any], _fresh: Sequence[Any]) -> Any:
        return _over(view, _plain(arrays[view.slot - 1], view.dtype))

    def constant(_workspace: Any, _arrays: Sequence[Any], _fresh: Sequence[Any]) -> Any:
        return _over(view, constants[at - len(program.fresh)]).copy()

    def fresh_one(_workspace: Any, _arrays: Sequence[Any], fresh: Sequence[Any]) -> Any:
        return _over(view, fresh[at])

    if view.slot == ARENA:
        return kept
    if whole is not None:
        return (lambda _w, _a, fresh: fresh[at]) if at >= 0 else (lambda _w, arrays, _f: arrays[whole])
    if view.slot <= inputs:
        return argument
    return fresh_one if at < len(program.fresh) else constant
