"""What prepared values are computed from, and how: the keys by which programs share them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdsl.ir import BlockArgument, SSAValue

from hybridc.dialects.mlir.hybrid_rt import AliasOp, ConstantOp, LaunchOp
from hybridc.ground.records import dataclass
from hybridc.ir.planned import NativeRegion, Position, SlotView

if TYPE_CHECKING:
    from hybridc.lower.llvm.native_source import NativeSource


@dataclass(frozen=True)
class _Origin:
    """How a value is computed (``key``), from which inputs of the program, by which of its steps."""

    key: str
    inputs: tuple[int, ...]
    steps: frozenset[int]


class PreparedOrigins:
    """The origins of the values of a program's preparation, while it is written.

    A key is a hash of the native functions that are called, with their scalar arguments, and of the keys of what they
    read. Addresses, names of kernels and how threads share a step do not matter. Thus a program for other sizes has
    the same keys where it needs the same values.
    """

    def __init__(self, program: NativeSource, views: Mapping[SSAValue, SlotView]) -> None:
        self._program = program
        self._views = views
        self._origins: dict[SSAValue, _Origin] = {}
        self._copies: dict[SSAValue, range] = {}

    def copied(self, view: SSAValue, steps: range) -> None:
        """Note that steps have copied the view of an array into memory of its own."""
        self._copies[view] = steps

    def launched(self, op: LaunchOp, steps: range) -> None:
        """Note the steps of a launch; what it keeps gets its key."""
        origins = [self._origin(v) for v in op.ins]
        inputs = tuple(dict.fromkeys(i for origin in origins for i in origin.inputs))
        read = [(origin.key, [inputs.index(i) for i in origin.inputs]) for origin in origins]
        operands = [*op.ins, *op.outs]
        places: dict[Position, int] = {}
        for index, value in enumerate(operands):
            view = self._views[value]
            places.setdefault(Position(view.slot, view.offset), index)
        done = [self._content(step, places) for step in self._program.steps[steps.start : steps.stop]]
        every = frozenset(steps).union(*[origin.steps for origin in origins])
        for index, value in enumerate(op.outs):
            view = self._views[value]
            key = _hash("launch", read, done, index, str(view.dtype), view.shape, view.strides)
            self._origins[value] = _Origin(key, inputs, every)
            kept = view.slot - self._first_kept
            if kept >= 0:
                known = self._program.kept[kept]
                self._program.kept[kept] = replace(known, key=key, inputs=inputs, steps=tuple(sorted(every)))

    @property
    def _first_kept(self) -> int:
        """The slot of the first prepared value."""
        program = self._program
        return 1 + len(program.inputs) + len(program.fresh) + len(program.constants)

    @staticmethod
    def _content(step: Any, places: dict[Position, int]) -> Any:
        """What a step does to the operands of its launch; other memory is its own."""
        functions, region = step
        assert isinstance(region, NativeRegion), "the preparation calls nothing on the host"
        bare = replace(region, buffers=(), scratch=None, scratch_stride=0, name="", grain=1, least=0)
        return [f.key for f in functions], [places.get(place, -1) for place in region.buffers], repr(bare)

    def _origin(self, value: SSAValue) -> _Origin:
        known = self._origins.get(value)
        if known is None:
            known = self._origins[value] = self._found(value)
        return known

    def _found(self, value: SSAValue) -> _Origin:
        view = self._views[value]
        match value.owner:
            case AliasOp():
                return self._seen(value, value.owner)
            case ConstantOp():
                constant = self._program.constants[view.slot - self._first_kept]  # they end where those begin
                return _Origin(_hash("constant", str(constant.dtype), constant.shape, constant.tobytes()), (), _NONE)
            case _:
                assert isinstance(value, BlockArgument), "the preparation reads what it did not compute"
                return _Origin(_hash("argument", str(view.dtype), view.shape), (value.index,), _NONE)

    def _seen(self, value: SSAValue, op: AliasOp) -> _Origin:
        """A view, perhaps copied, of another value."""
        origin, copied = self._origin(op.array), self._copies.get(value, range(0))
        movement = [op.view.data, *map(op.numbers, ("order", "begin", "step"))]
        views = [(str(view.dtype), view.shape, view.strides) for view in (self._views[op.array], self._views[value])]
        return _Origin(_hash("view", origin.key, movement, views), origin.inputs, origin.steps.union(copied))


_NONE: frozenset[int] = frozenset()


def _hash(*content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()
