"""Native code that runs phases one after the other at each point of a grid, all at one point on one thread.

What one phase writes there is in the thread's cache when the next one reads it, and needs memory for a few points only.
"""

from __future__ import annotations

from hybridc.runtime.native.ir_text import TextFunction, TextModule
from hybridc.runtime.native.structures import POINTER, GridCell, GridPartCell, PositionRecord


def emit_grid(module: TextModule) -> TextFunction:
    """void grid(void **buffers, GridCell *grid, int64 lo, int64 hi, void *scratch): the phase of a `Grid`."""
    f = module.function("grid", "void", ("ptr", "ptr", "i64", "i64", "ptr"), exported=True)
    buffers, address, low, high, scratch = f.arguments
    grid = f.record(address, GridCell)
    count, axes, sizes, steps = grid.buffer_count, grid.axis_count, grid.sizes, grid.steps
    slots = f.stack(count + 1)  # the thread's scratch, then what the point has of each buffer
    given = f.stack(grid.widest)
    f.store("ptr", scratch, slots)
    with f.count(high, low) as point:
        with f.count(count) as i:
            f.store("ptr", f.load("ptr", f.at(buffers, i * POINTER)), f.at(slots, (i + 1) * POINTER))
        rest, axis = f.variable("i64", point), f.variable("i64", axes)
        with f.loop() as walk:
            walk.leave_if(axis.get() <= 0)
            axis.set(axis.get() - 1)
            size = f.load("i64", f.at(sizes, axis.get() * 8))
            before = rest.get() // size
            index = rest.get() - before * size
            rest.set(before)
            with f.count(count) as i:
                step = f.load("i64", f.at(steps, (axis.get() * count + i) * 8))
                slot = f.at(slots, (i + 1) * POINTER)
                f.store("ptr", f.at(f.load("ptr", slot), index * step), slot)
        with f.count(grid.part_count) as number:
            part = f.record(grid.parts, GridPartCell, number)
            with f.count(part.buffer_count) as i:
                place = f.record(part.buffers, PositionRecord, i)
                buffer = f.at(f.load("ptr", f.at(slots, place.slot * POINTER)), place.offset)
                f.store("ptr", buffer, f.at(given, i * POINTER))
            own = f.at(scratch, part.scratch)
            f.call("void", part.code, given, part.numbers, f.constant("i64", 0), part.extent, own)
    f.ret()
    return f
