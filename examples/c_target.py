"""A fourth target in one file: tile programs printed as plain C, compiled by ``cc``.

    python examples/c_target.py

The compiler's middle end decides how a kernel is computed and writes it down as a tile program
(``hybridc/ir/tiles/tile_program.py``): loops, affine addresses, scalar operations, reductions. A target prints that.
This one prints every kernel as C, for a machine without vector registers or a BLAS, for which matmuls and convolutions
are plain loops; it takes the memory plan and the executor from the native target.
"""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hybridc as mx
from hybridc import dtypes
from hybridc.compile.targets import LLVM, add_target
from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.dtypes import NARROW  # kinds of memory alone: operations on them are those on float, rounded
from hybridc.gluon import nn
from hybridc.ir.tiles import tile_program as tiles
from hybridc.ir.tiles.tile_program import Address, Factor, Statement, TileProgram, TileSweep
from hybridc.lower.llvm.codegen.native_function import NativeFunction, ObjectCode
from hybridc.options import OPTIONS
from hybridc.transforms.code.loop_target import LoopTarget
from hybridc.transforms.schedules.loop_machine import LoopMachine

FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-fwrapv", "-fno-math-errno", "-ffp-contract=on", "-w")
# Integers are signless, and signed in C.
TYPES = {t.ir: t.c for t in dtypes.TYPES.values() if t.ir and t.c and t.kind != "u"}
TYPES |= {"index": "int64_t", "i16": "int16_t", "i128": "int128_t"}
HEAD = """\
#include <math.h>
#include <stdint.h>
#include <string.h>
typedef __int128 int128_t;
typedef unsigned __int128 uint128_t;
typedef struct { uint16_t bits; } bf16;
typedef struct { uint16_t bits; } f16;
static inline float wide_bf16(bf16 x) { uint32_t b = (uint32_t)x.bits << 16; float y; memcpy(&y, &b, 4); return y; }
static inline bf16 as_bf16(float x) {
  uint32_t b; memcpy(&b, &x, 4);
  return (bf16){x != x ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16};
}
static inline float wide_f16(f16 x) {
  const int exponent = x.bits >> 10 & 31, digits = x.bits & 1023, least = exponent ? exponent - 25 : -24;
  const float y = exponent < 31 ? ldexpf(digits + (exponent ? 1024 : 0), least) : digits ? NAN : INFINITY;
  return x.bits >> 15 ? -y : y;
}
static inline f16 as_f16(double x) {
  const uint16_t sign = signbit(x) ? 0x8000 : 0;
  int exponent; frexp(x, &exponent);
  const int least = exponent < -13 || x == 0 ? -24 : exponent - 11;
  const double digits = rint(ldexp(fabs(x), -least));
  if (x != x) return (f16){0x7e00};
  return (f16){sign | (fabs(x) >= 65520 ? 0x7c00 : (uint16_t)digits + (least + 24 << 10))};
}
static inline int64_t ipow(int64_t x, int64_t n) {
  int64_t y = 1;
  for (; n > 0; n >>= 1, x *= x) if (n & 1) y *= x;
  return y;
}
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
"""


@dataclass
class CPrinter:
    """Writes one tile program as a function ``region(buffers, numbers, lo, hi, scratch)``."""

    program: TileProgram

    def __post_init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.kinds: dict[str, str] = {}  # of values

    def source(self, symbol: str) -> str:
        """The file."""
        self.lines, self.depth = [], 0
        self.line(f"void {symbol}(void **buffers, const int64_t *numbers, int64_t lo, int64_t hi, char *scratch) {{")
        self.depth = 1
        self._arguments()
        if self.program.shared:
            self._pieces(lambda: self._sweeps(self.program.sweeps, "from", "to"))
        elif self.program.apart:
            for sweep in self.program.sweeps:
                self._pieces(lambda sweep=sweep: self._points([sweep]))
        else:
            self._pieces(lambda: self._points(self.program.sweeps))
        self.depth = 0
        self.line("}")
        return HEAD + "\n".join(self.lines) + "\n"

    # --- lines ---------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def block(self, head: str, body: Callable[[], None]) -> None:
        self.line(f"{head} {{")
        self.depth += 1
        body()
        self.depth -= 1
        self.line("}")

    def loop(self, name: str, low: str, high: str, body: Callable[[], None], step: str = "1") -> None:
        self.block(f"for (int64_t {name} = {low}; {name} < {high}; {name} += {step})", body)

    # --- memory --------------------------------------------------------------------------------------------

    def _arguments(self) -> None:
        """Pointers, sizes, strides, and the scratch of one index of the parallel axes."""
        p = self.program
        for i, b in enumerate(p.buffers):
            self.line(f"{TYPES[b.kind]} *restrict {b.name} = buffers[{i}];")
        numbers = [f"n{a}" for a in p.dynamic] + [f"s{i}" for i in range(p.strides)] + ["piece"] * bool(p.pieces)
        for i, name in enumerate(numbers):
            self.line(f"const int64_t {name} = numbers[{i}];")
        offset = "0"
        for i, s in enumerate(p.scratch):
            size = " * ".join([f"sizeof({TYPES[s.kind]})", *map(self.size, s.axes)])
            self.line(f"{TYPES[s.kind]} *restrict {s.name} = (void *)(scratch + {offset});")
            self.line(f"const int64_t end{i} = {offset} + ({size} + 63) / 64 * 64;")
            offset = f"end{i}"

    def size(self, axis: int) -> str:
        n = self.program.sizes[axis]
        return f"n{axis}" if n is None else str(n)

    def factor(self, f: Factor) -> str:
        names = [f"n{a}" for a in f.sizes] + ([f"s{f.stride}"] if f.stride is not None else [])
        return " * ".join([str(f.constant), *names])

    def element(self, address: Address) -> str:
        terms = [f"i{a} * {self.factor(f)}" for a, f in address.terms]
        terms += [f"at_{address.buffer}"] if address.buffer in {b.name for b in self.program.pieces} else []
        terms += [self.factor(f) for f in address.offset]
        return f"{address.buffer}[{' + '.join(terms) or 0}]"

    # --- loops ---------------------------------------------------------------------------------------------

    def _pieces(self, walk: Callable[[], None]) -> None:
        """All of it from ``from`` to ``to``: the range itself, or each piece of it with its partial results."""
        p = self.program
        if not p.pieces:
            self.block("for (int64_t from = lo, to = hi; from < to; from = to)", walk)
            return
        whole = " * ".join(map(self.size, p.parallel or p.inner)) or "1"

        def piece() -> None:
            self.line(f"const int64_t from = part * piece, to = least(from + piece, {whole});")
            for reduce in p.reductions:
                if reduce.into is not None and reduce.into.buffer in {b.name for b in p.pieces}:
                    name = reduce.into.buffer
                    size = " * ".join(map(self.size, reduce.into.axes)) or "1"
                    self.line(f"const int64_t at_{name} = part * ({size});")
                    start = number(reduce.start, reduce.kind)
                    self.loop(
                        "k", "0", size, lambda name=name, start=start: self.line(f"{name}[at_{name} + k] = {start};")
                    )
            walk()

        self.loop("part", "lo", "hi", piece)

    def _points(self, sweeps: Sequence[TileSweep]) -> None:
        """The parallel axes; where they are walked in tiles, the range counts tiles of 32 rows."""
        p = self.program
        outer = p.parallel if p.tiled is None else p.parallel[:-1]

        def point() -> None:
            self.line("int64_t rest = point;")
            if p.tiled is not None:
                rows = self.size(p.tiled)
                self.line(f"const int64_t tile = rest % (({rows} + 31) / 32); rest /= ({rows} + 31) / 32;")
            for axis in reversed(outer[1:]):
                self.line(f"const int64_t i{axis} = rest % {self.size(axis)}; rest /= {self.size(axis)};")
            if outer:
                self.line(f"const int64_t i{outer[0]} = rest;")
            if p.tiled is None:
                self._sweeps(sweeps)
            else:
                self._tile(p.tiled, p.inner[0])

        self.loop("point", "from", "to", point)

    def _tile(self, rows: int, columns: int) -> None:
        last = f"least(tile * 32 + 32, {self.size(rows)})"
        statements = [s for sweep in self.program.sweeps for s in sweep.statements]
        body = lambda: [self.statement(s) for s in statements] and None  # noqa: E731
        inner = lambda: self.loop(f"i{columns}", "j", f"least(j + 32, {self.size(columns)})", body)  # noqa: E731
        self.loop("j", "0", self.size(columns), lambda: self.loop(f"i{rows}", "tile * 32", last, inner), "32")

    def _sweeps(self, sweeps: Sequence[TileSweep], low: str = "0", high: str | None = None) -> None:
        for sweep in sweeps:
            self._sweep(sweep, low, high)

    def _sweep(self, sweep: TileSweep, low: str, high: str | None) -> None:
        """One loop nest; reductions that become numbers are declared outside of their loops."""
        pieces = {b.name for b in self.program.pieces}
        reductions = [s for s in sweep.statements if isinstance(s, tiles.TileReduce)]
        for s in reductions:
            if s.accumulates and s.into is not None and s.into.buffer not in pieces:
                self._fill(s, s.into, [a for a in s.into.axes if a in self.program.inner])
        self._nest(sweep, list(sweep.axes), reductions, low, high)

    def _fill(self, s: tiles.TileReduce, into: Address, axes: list[int]) -> None:
        if not axes:
            self.line(f"{self.element(into)} = {number(s.start, s.kind)};")
            return
        self.loop(f"i{axes[0]}", "0", self.size(axes[0]), lambda: self._fill(s, into, axes[1:]))

    def _nest(
        self, sweep: TileSweep, axes: list[int], reductions: list[tiles.TileReduce], low: str, high: str | None
    ) -> None:
        begun = [s for s in reductions if s.carried == len(axes) and s.carried]
        for s in begun:
            self.kinds[s.name] = s.kind
            self.line(f"{TYPES[s.kind]} v{s.name} = {number(s.start, s.kind)};")
        if not axes:
            for s in sweep.statements:
                self.statement(s)
            self._sweeps(sweep.sweeps)
            return
        if len(axes) == 1 and sweep.bounds is not None:
            first, end = sweep.bounds
            low, high = "0" if first is None else f"v{first}", f"v{end}"
        rest = lambda: self._nest(sweep, axes[1:], reductions, "0", None)  # noqa: E731
        self.loop(f"i{axes[0]}", low, high or self.size(axes[0]), rest)
        for s in begun:
            if s.into is not None:
                target = self.element(s.into)
                self.line(f"{target} = {self._combined(s, target, f'v{s.name}') if s.accumulates else f'v{s.name}'};")

    # --- statements ----------------------------------------------------------------------------------------

    def statement(self, s: Statement) -> None:
        match s:
            case tiles.TileStore():
                self.line(f"{self.element(s.address)} = v{s.value};")
            case tiles.TileScatter():
                self.line(f"{self._computed(s.buffer, s.terms)} = v{s.value};")
            case tiles.TileLoop():
                self._loop(s)
            case tiles.TileCombine():
                self._halve(s, self.size(self.program.inner[0]))
            case tiles.TileReduce() if s.carried:
                self.line(f"v{s.name} = {self._combined(s, f'v{s.name}', f'v{s.operand}')};")
            case tiles.TileReduce():
                assert s.into is not None
                target = self.element(s.into)
                self.line(f"{target} = {self._combined(s, target, f'v{s.operand}')};")
            case _:
                self.kinds[s.name] = s.kind
                self.line(f"const {TYPES[s.kind]} v{s.name} = {self._value(s)};")

    def _loop(self, s: tiles.TileLoop) -> None:
        """A loop of its own: what it carries is in variables that have the names of its results."""
        for c in s.carried:
            self.kinds[c.name] = self.kinds[c.result] = c.kind
            self.line(f"{TYPES[c.kind]} v{c.result} = v{c.start};")

        def body() -> None:
            for c in s.carried:
                self.line(f"const {TYPES[c.kind]} v{c.name} = v{c.result};")
            for statement in s.statements:
                self.statement(statement)
            for c in s.carried:
                self.line(f"v{c.result} = v{c.next};")

        self.kinds[s.index] = "index"
        self.loop(f"v{s.index}", f"v{s.low}", f"v{s.high}", body)

    def _halve(self, s: tiles.TileCombine, size: str) -> None:
        """Partial results, of which the second half is added to the first until one is left."""

        def combine(into: str, part: str) -> None:
            total = self._combined(s, into, f"{s.parts}[({part}) * {size} + k]")
            self.loop("k", "from", "to", lambda: self.line(f"{into} = {total};"))

        def half() -> None:
            self.line("half = (left + 1) / 2;")
            self.loop("part", "half", "left", lambda: combine(f"{s.parts}[(part - half) * {size} + k]", "part"))

        self.loop("k", "from", "to", lambda: self.line(f"{s.into}[k] = {number(s.start, s.kind)};"))
        self.block(f"for (int64_t left = v{s.count}, half; left > 1; left = half)", half)
        self.block(f"if (v{s.count})", lambda: combine(f"{s.into}[k]", "0"))

    def _computed(self, buffer: str, terms: Sequence[tuple[str, Factor]]) -> str:
        return f"{buffer}[{' + '.join([f'v{v} * {self.factor(f)}' for v, f in terms] or ['0'])}]"

    def _value(self, s: Statement) -> str:
        match s:
            case tiles.TileConstant():
                return number(s.constant, s.kind)
            case tiles.TileNumber():
                return self.factor(s.factor)
            case tiles.TileRange():
                return "to" if s.end else "from"
            case tiles.TileIndex():
                return f"i{s.axis}"
            case tiles.TileLoad():
                return self.element(s.address)
            case tiles.TileGather():
                return self._computed(s.buffer, s.terms)
            case tiles.TileMap():
                operands = [f"v{v}" for v in s.operands]
                return expression(s.op, operands, self.kinds[s.operands[0]], s.kind)
            case _:
                raise LookupError(
                    f"{type(s).__name__} is about whole tiles, which a machine without vectors has none of"
                )

    def _combined(self, s: tiles.TileReduce | tiles.TileCombine, a: str, b: str) -> str:
        return expression(s.op, [a, b], s.kind, s.kind)


def expression(op: str, operands: list[str], given: str, kind: str) -> str:
    """An operation of ``arith`` or ``math`` in C; ``given`` is the kind of its first operand."""
    if given in NARROW:
        return expression(op, [f"wide_{given}({each})" for each in operands], "f32", kind)
    if kind in NARROW and op != "arith.select":
        return f"as_{kind}({expression(op, operands, given, 'f32')})"
    text = OPERATIONS[op].c if op in OPERATIONS else ""
    if "{" in text:
        unsigned = TYPES[given] if given == "i1" else f"u{TYPES[given]}"
        return text.replace("U", unsigned).format(*operands)
    if not text:
        raise LookupError(f"the C target has no expression for {op}")
    return f"{text}{'f' if kind == 'f32' else ''}({', '.join(operands)})"


def number(value: float, kind: str) -> str:
    """A number in C."""
    if kind in NARROW:
        return f"as_{kind}({number(value, 'f32')})"
    if "f" not in kind:
        return f"({TYPES[kind]}){int(value) & (2**64 - 1)}ull"
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return f"({TYPES[kind]}){float(value)!r}{'f' if kind == 'f32' else ''}"


class CFunction(NativeFunction):
    """A tile program whose machine code a C compiler makes; ``key`` is the text of the program."""

    def __init__(self, program: TileProgram) -> None:
        super().__init__("c " + hashlib.sha256(f"{program}{FLAGS}".encode()).hexdigest(), program=program)

    def compiler(self) -> Callable[[], ObjectCode]:
        return lambda: ObjectCode.of(compiled(CPrinter(self.program).source(self.symbol)))

    def explain(self, stage: str) -> str:
        return str(self.program) if stage == "tiles" else CPrinter(self.program).source(self.symbol)


def compiled(source: str) -> bytes:
    """The object file of a C source."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "kernel.c"), Path(folder, "kernel.o")
        paths[0].write_text(source)
        subprocess.run([os.environ.get("CC", "cc"), *FLAGS, "-c", str(paths[0]), "-o", str(paths[1])], check=True)
        return paths[1].read_bytes()


class C(LLVM):
    """The native target, but for the code of kernels: a compiler of C knows the vectors of the machine."""

    name = "c"

    def loop_target(self) -> LoopTarget:
        return LoopTarget(OPTIONS.num_threads, LoopMachine(vectors=None), CFunction)


def main() -> None:
    add_target(C())
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="tanh"), nn.LayerNorm(), nn.HybridLambda("softmax"))
    net.initialize()
    x = mx.nd.random.normal(shape=(100, 32))
    lowered = net.trace(x).optimize().lower("c")
    print(lowered.programs["forward"].code("c").split(HEAD)[-1])
    run = lowered.compile()
    difference = np.abs(run(x).asnumpy() - net(x).asnumpy()).max()
    print(f"largest difference from the eager network: {difference:.1e}")


if __name__ == "__main__":
    main()
