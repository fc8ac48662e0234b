"""The parallel regions of contractions group by group: depthwise and grouped convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.ir.contraction_shape import accesses_after
from hybridc.ir.costs import sharing
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.planned import Strides
from hybridc.transforms.code.loop_target import LoopTarget, Printer
from hybridc.transforms.code.parallel_regions import (
    ParallelRegion,
    ParallelRegions,
    move_region,
)
from hybridc.transforms.schedules.schedule_lanes import LaneSchedule, schedule_lanes


def lane_regions(kernel: Kernel, target: LoopTarget, strides: Sequence[Strides]) -> ParallelRegions | None:
    """The parallel regions of a contraction group by group; None if it is none, or vectors do not fit.

    ``strides``, in elements, are those of the kernel's arguments and results.
    """
    schedule = schedule_lanes(kernel, strides, target.machine.vectors)
    return None if schedule is None else _regions_of(kernel, schedule, target.printer)


def _regions_of(kernel: Kernel, schedule: LaneSchedule, printer: Printer) -> ParallelRegions:
    """Copies of operands, the contraction, the combination of its pieces, and a copy of the result."""
    kernel_op = kernel.nests[0].contraction
    assert kernel_op is not None, "a kernel of a contraction"
    values = [*kernel.arguments, *kernel.results]
    used = [r.value for r in (*kernel_op.reads, *accesses_after(kernel))]
    places = [values.index(v) for v in used]
    dtype, outputs = kernel_op.result.dtype, kernel_op.result.size
    regions, buffers = ParallelRegions(), list(places)

    def local(elements: int, itemsize: int) -> int:
        regions.locals.append(elements * itemsize)
        return len(values) + len(regions.locals) - 1

    for i, copy in enumerate(schedule.operands):
        if copy is not None:
            buffers[i] = local(used[i].size, dtype.itemsize)
            regions.regions.append(move_region(copy, (places[i], buffers[i]), printer))
    arranged = places[2] if schedule.result is None else local(outputs, used[2].dtype.itemsize)
    buffers[2] = arranged if schedule.combination is None else local(outputs * schedule.pieces, dtype.itemsize)
    regions.regions.append(_lane_region(schedule, tuple(buffers), printer))
    if schedule.combination is not None:
        regions.regions.append(move_region(schedule.combination, (buffers[2], arranged), printer))
    if schedule.result is not None:
        regions.regions.append(move_region(schedule.result, (arranged, places[2]), printer))
    return regions


def _lane_region(schedule: LaneSchedule, buffers: tuple[int, ...], printer: Printer) -> ParallelRegion:
    """The region of the contraction itself."""
    grain, least = sharing(schedule.work, schedule.extent)
    function, numbers, extent = printer(schedule.program), schedule.numbers, schedule.extent
    return ParallelRegion(function, buffers, numbers, extent, grain, 0, schedule.work, least, "lanes")
