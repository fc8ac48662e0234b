"""Scatter-add of rows (the gradient of an embedding): each thread owns some rows of the result and scans all indices.

So there are no conflicting writes, and sums do not depend on the number of threads: rows are added in order.
"""

# Triton's functions are untyped, and so are their arguments.
# pyright: basic, reportInvalidTypeForm=false
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hybridc.dialects.handwritten import ArraySpec, Kernel, LoopKernel, TritonKernel
from hybridc.dialects.movement import bounded_index
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.machine import machine
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import value_of

if TYPE_CHECKING:
    tl: Any = None  # triton.language, which a kernel's module imports

# Rows and row elements that a GPU program owns, and indices tested at a time.
PLACES, ELEMENTS, CHUNK = 32, 128, 256


def add_rows(target: str, data: ArraySpec, indices: ArraySpec, shape: Shape, axis: int, mode: str) -> Kernel | None:
    """The kernel of ``out[o, clip_or_wrap(indices[k])] += data[o, k]`` along an axis, from zeros, in the order of k.

    ``mode``, clip or wrap, says what indices out of range mean.
    """
    outer, rows, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    count = indices.size
    match target:
        case "llvm":
            elements = value_of(outer * inner * (rows + 2 * count))
            costs = machine().costs
            setup = value_of(count) * costs.indirect
            work = elements * (costs.byte * data.dtype.itemsize + costs.operation) + setup
            body = AddRowsLoops(rows, mode)
            return LoopKernel(body, rows, (outer, inner, count), flat=True, work=work, setup=setup)
        case "triton":
            block = min(ELEMENTS, 1 << max(0, inner - 1).bit_length())
            sizes = {"ROWS": rows, "INNER": inner, "WRAP": int(mode == "wrap")}
            constants = {**sizes, "PLACES": PLACES, "ELEMENTS": block, "CHUNK": CHUNK}
            programs = -(-rows // PLACES) * -(-inner // block) * outer
            return TritonKernel(add_rows_kernel, (programs,), (count,), constants, helpers=(place_of,))
        case _:
            return None


@dataclass(frozen=True)
class AddRowsLoops:
    """A range of rows: zeros, then each data row whose index is in the range."""

    rows: int
    mode: str

    def __call__(
        self, b: Any, low: Any, high: Any, data: Any, indices: Any, out: Any, outer: Any, inner: Any, count: Any
    ) -> None:
        def clear(part: Any) -> None:
            first = part * self.rows
            begin, end = ((first + place) * inner for place in (low, high))
            b.loop(begin, end, lambda i: b.store(0, out, i))

        def row(number: Any) -> None:
            place = bounded_index(b, indices[number], self.rows, self.mode)
            inside = (low <= place) & (place < high)

            def part(which: Any) -> None:
                source = (which * count + number) * inner
                target = (which * self.rows + place) * inner

                def element(i: Any) -> None:
                    at = target + i
                    out[at] = out[at] + data[source + i]

                b.loop(0, inner, element)

            b.loop(0, b.select(inside, outer, 0), part)  # not in the range: nothing is done

        b.loop(0, outer, clear)
        b.loop(0, count, row)


def add_rows_kernel(
    data,
    indices,
    out,
    count,
    ROWS: tl.constexpr,
    INNER: tl.constexpr,
    WRAP: tl.constexpr,
    PLACES: tl.constexpr,
    ELEMENTS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """A program owns ``PLACES`` rows, and ``ELEMENTS`` elements of each."""
    program = tl.program_id(0)
    down: tl.constexpr = (ROWS + PLACES - 1) // PLACES
    across: tl.constexpr = (INNER + ELEMENTS - 1) // ELEMENTS
    first = program % down * PLACES
    place = first + tl.arange(0, PLACES)[:, None]
    i = program // down % across * ELEMENTS + tl.arange(0, ELEMENTS)[None, :]
    part = (program // (down * across)).to(tl.int64)
    kind: tl.constexpr = data.dtype.element_ty
    wide: tl.constexpr = tl.float32 if kind == tl.bfloat16 else kind
    sum = tl.zeros([PLACES, ELEMENTS], wide)
    for start in range(0, count, CHUNK):
        number = start + tl.arange(0, CHUNK)
        here = place_of(tl.load(indices + number, mask=number < count), ROWS, WRAP)
        own = (number < count) & (here >= first) & (here < first + PLACES)
        if tl.max(own.to(tl.int32), axis=0) > 0:
            for n in range(start, tl.minimum(start + CHUNK, count)):
                at = place_of(tl.load(indices + n), ROWS, WRAP)
                if (at >= first) & (at < first + PLACES):
                    row = tl.load(data + (part * count + n) * INNER + i, mask=i < INNER)
                    added = tl.where(place == at, row, 0).to(wide)
                    if wide == tl.int1:
                        sum |= added
                    else:
                        sum += added
    tl.store(out + (part * ROWS + place) * INNER + i, sum, mask=(place < ROWS) & (i < INNER))


def place_of(index, ROWS: tl.constexpr, WRAP: tl.constexpr):
    """The row of an index of any dtype."""
    index = index.to(tl.int64)
    if WRAP:
        index = index % ROWS
        return tl.where(index < 0, index + ROWS, index)
    return tl.minimum(tl.maximum(index, 0), tl.maximum(ROWS - 1, 0))
