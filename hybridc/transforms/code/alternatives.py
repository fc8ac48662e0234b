"""Which code a kernel gets: a table of alternatives, of which the first that fits is taken.

What an alternative makes are parallel regions whose functions the target prints of tile programs. Among the algorithms
for a matmul the costs decide (:mod:`~hybridc.transforms.code.choose_matmul`); all others are made for what fits them,
and are the fastest there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from hybridc.ground.cached import cached_property
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.contraction_shape import linear_map_of
from hybridc.ir.kernels.kernel import Kernel, constants_of
from hybridc.ir.planned import Strides
from hybridc.transforms.code.choose_matmul import is_contraction_kernel, regions_of_matmul
from hybridc.transforms.code.grid_regions import grid_regions
from hybridc.transforms.code.lane_regions import lane_regions
from hybridc.transforms.code.loop_target import LoopTarget
from hybridc.transforms.code.parallel_regions import ParallelRegions, move_region
from hybridc.transforms.code.partial_sums import partial_sum_regions
from hybridc.transforms.schedules.schedule_linear_map import schedule_linear_map
from hybridc.transforms.schedules.schedule_moves import MoveSchedule, move_of, schedule_fill, schedule_move

if TYPE_CHECKING:
    from hybridc.transforms.code.kernel_cache import KernelCache


@dataclass(frozen=True)
class CodeRequest:
    """A kernel that is to be coded, as it is called.

    ``strides``, in elements, are those of its non-contiguous arguments and results; ``inplace`` are pairs of an
    argument and the result that overwrites it. The ``cache`` has its loop nests at other sizes, and at tiles.
    """

    kernel: Kernel
    strides: Mapping[int, Strides]
    inplace: tuple[tuple[int, int], ...]
    cache: KernelCache

    @property
    def target(self) -> LoopTarget:
        """What it is coded for."""
        return self.cache.target

    @cached_property
    def all_strides(self) -> list[Strides]:
        """The strides of all arguments and results."""
        values = (*self.kernel.arguments, *self.kernel.results)
        return [self.strides.get(i) or row_major(v.shape) for i, v in enumerate(values)]

    @cached_property
    def is_contraction(self) -> bool:
        """Whether it is a single contraction, with or without an epilogue."""
        return not self.kernel.grid and is_contraction_kernel(self.kernel)

    def moved(self, schedule: MoveSchedule) -> ParallelRegions:
        """The region of a schedule of the only argument and the only result."""
        return ParallelRegions([move_region(schedule, (0, 1), self.target.printer)])


def _fills(request: CodeRequest) -> ParallelRegions | None:
    kernel = request.kernel
    constants = None if kernel.arguments else constants_of(kernel)
    if constants is None:
        return None
    results = zip(kernel.results, request.all_strides, constants, strict=True)
    fills = [schedule_fill(v.dtype, v.shape, strides, value) for v, strides, value in results]
    return ParallelRegions([move_region(fill, (i,), request.target.printer) for i, fill in enumerate(fills)])


def _grid(request: CodeRequest) -> ParallelRegions | None:
    return grid_regions(request.kernel, request.strides, request.cache) if request.kernel.grid else None


def _move(request: CodeRequest) -> ParallelRegions | None:
    move = None if request.is_contraction or request.inplace else move_of(request.kernel, request.strides)
    schedule = None if move is None else schedule_move(move, request.target.machine.vectors)
    return None if schedule is None else request.moved(schedule)


def _loops(request: CodeRequest) -> ParallelRegions | None:
    if request.is_contraction:
        return None
    loops = request.cache.loops_of(request.kernel, frozenset(request.strides), request.inplace)
    return loops.at(request.kernel, request.strides)


def _linear_map(request: CodeRequest) -> ParallelRegions | None:
    mapped = linear_map_of(request.kernel)
    if mapped is None:
        return None
    return request.moved(schedule_linear_map(mapped, request.all_strides, request.target.machine.vectors))


def _lanes(request: CodeRequest) -> ParallelRegions | None:
    return lane_regions(request.kernel, request.target, request.all_strides)


def _partial_sums(request: CodeRequest) -> ParallelRegions | None:
    if len(request.kernel.ops) > 1:
        return None
    return partial_sum_regions(request.kernel, request.target, request.all_strides)


def _matmul(request: CodeRequest) -> ParallelRegions | None:
    regions = regions_of_matmul(request.kernel, request.target, request.all_strides)
    return None if len(request.kernel.ops) > 1 and not regions else ParallelRegions([*regions])


def _one_tile(request: CodeRequest) -> ParallelRegions | None:
    return grid_regions(request.kernel.as_one_tile(), request.strides, request.cache)


class CodeAlternative(NamedTuple):
    """A kind of code: what it is for, and its regions, None for a kernel that it does not fit."""

    purpose: str
    regions: Callable[[CodeRequest], ParallelRegions | None]


ALTERNATIVES = (
    CodeAlternative("results that are constant", _fills),
    CodeAlternative("several contractions over a grid, tile by tile", _grid),
    CodeAlternative("an array that moves, by rows, tiles, or squares in registers", _move),
    CodeAlternative("elements, rows and columns", _loops),
    CodeAlternative("a product with constant matrices, as straight-line code", _linear_map),
    CodeAlternative("contractions group by group, in the lanes of vectors", _lanes),
    CodeAlternative("a contraction of many terms for few results, in pieces", _partial_sums),
    CodeAlternative("a matmul, by the fastest of its algorithms, or plain loops", _matmul),
    CodeAlternative("a contraction apart from what follows it, in one tile", _one_tile),
)


def choose_code(request: CodeRequest) -> ParallelRegions:
    """The parallel regions of a kernel: those of the first alternative that fits it."""
    return next(regions for a in ALTERNATIVES if (regions := a.regions(request)) is not None)
