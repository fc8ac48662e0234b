"""Kernels as text, written op by op; and random ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.slices import tries


def examples(count):
    """The settings of a test of so many random programs: always the same, and none is shrunk, since each compiles."""
    return settings(
        max_examples=tries(count),
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


BODIES = {
    0: ["%r = arith.constant 1.5 : E"],
    1: [
        "%r = math.tanh %e0 : E",
        "%r = arith.negf %e0 : E",
        "%n = arith.constant 2.5 : E\n%r = arith.mulf %e0, %n : E",
    ],
    2: [
        "%r = arith.addf %e0, %e1 : E",
        "%r = arith.mulf %e1, %e0 : E",
        "%t = math.tanh %e1 : E\n%r = arith.subf %e0, %t : E",
        "%c = arith.cmpf ogt, %e0, %e1 : E\n%r = arith.select %c, %e0, %e1 : E",
        "%z = arith.constant 0.0 : E\n%c = arith.cmpf olt, %e0, %z : E\n%r = arith.select %c, %e1, %e0 : E",
    ],
}
NEUTRAL = {"arith.addf": "0.0", "arith.maximumf": {"f32": "0xFF800000", "f64": "0xFFF0000000000000"}}


@dataclass
class Named:
    """A value of a kernel: the axes of the iteration space that its dimensions follow."""

    name: str
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    def type(self, element):
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{element}>"


@dataclass
class Writer:
    """Writes one kernel, of one element type."""

    element: str = "f64"
    domains: list = field(default_factory=list)
    args: list = field(default_factory=list)
    lines: list = field(default_factory=list)
    count: int = 0

    def arg(self, axes, nest=0, extra=()):
        """An argument that follows these axes; from the domain's rank on they are summed, with sizes ``extra``."""
        sizes = (*self.domains[nest], *extra)
        self.args.append(Named(f"%x{len(self.args)}", tuple(axes), tuple(sizes[a] for a in axes)))
        return self.args[-1]

    def _map(self, loops, axes):
        names = [f"d{i}" for i in range(len(loops))]
        return f"affine_map<({', '.join(names)}) -> ({', '.join(names[loops.index(a)] for a in axes)})>"

    def _generic(self, nest, reads, result, reduced, init, body):
        loops = [*result.axes, *reduced]
        rank = len(self.domains[nest])
        maps = ", ".join(self._map(loops, v.axes) for v in (*reads, result))
        kinds = ", ".join(['"parallel"'] * len(result.axes) + ['"reduction"'] * len(reduced))
        axes = ", ".join(str(a if a < rank else -1) for a in loops)
        attributes = f"hybrid.axes = array<i64{': ' * bool(loops)}{axes}>, hybrid.loop_nest = {nest} : i64"
        given = f"ins({', '.join(r.name for r in reads)} : {', '.join(r.type(self.element) for r in reads)})"
        kind = result.type(self.element)
        elements = ", ".join(f"%e{i}: {self.element}" for i in range(len(reads)))
        self.lines.append(
            f"{result.name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
            f"{given if reads else ''} outs({init} : {kind}) attrs = {{{attributes}}} {{\n"
            f"^b({elements}{', ' * bool(reads)}%acc: {self.element}):\n"
            + body.replace(" E", f" {self.element}")
            + f"\nlinalg.yield %r : {self.element}\n}} -> {kind}"
        )
        return result

    def _result(self, axes, nest):
        self.count += 1
        return Named(f"%v{self.count}", tuple(axes), tuple(self.domains[nest][a] for a in axes))

    def _empty(self, result):
        self.lines.append(f"{result.name}_e = tensor.empty() : {result.type(self.element)}")
        return f"{result.name}_e"

    def _filled(self, result, number):
        empty = self._empty(result)
        kind = result.type(self.element)
        self.lines.append(f"{result.name}_n = arith.constant {number} : {self.element}")
        self.lines.append(
            f"{result.name}_f = linalg.fill ins({result.name}_n : {self.element}) outs({empty} : {kind}) -> {kind}"
        )
        return f"{result.name}_f"

    def map(self, reads, axes, body, nest=0):
        """An elementwise linalg op."""
        result = self._result(axes, nest)
        return self._generic(nest, reads, result, (), self._empty(result), body)

    def reduce(self, read, reduced, combine="arith.addf", axes=None, nest=0):
        """A reduction of some axes."""
        kept = [a for a in read.axes if a not in reduced] if axes is None else axes
        result = self._result(kept, nest)
        number = NEUTRAL[combine] if combine == "arith.addf" else NEUTRAL[combine][self.element]
        init = self._filled(result, number)
        return self._generic(nest, [read], result, tuple(reduced), init, f"%r = {combine} %acc, %e0 : E")

    def contraction(self, lhs, rhs, axes, nest=0):
        """A contraction: what both read and the result does not follow is summed."""
        result = self._result(axes, nest)
        summed = [a for a in lhs.axes if a not in axes]
        body = "%m = arith.mulf %e0, %e1 : E\n%r = arith.addf %acc, %m : E"
        return self._generic(nest, [lhs, rhs], result, summed, self._filled(result, "0.0"), body)

    def text(self, results, name="kernel"):
        """The module."""
        arguments = ", ".join(f"{a.name}: {a.type(self.element)}" for a in self.args)
        types = ", ".join(r.type(self.element) for r in results)
        domains = ", ".join(f"array<i64{': ' * bool(d)}{', '.join(map(str, d))}>" for d in self.domains)
        body = "\n".join(self.lines)
        return (
            f"func.func private @{name}({arguments}) -> ({types}) attributes {{hybrid.domains = [{domains}]}} {{\n"
            f"{body}\nfunc.return {', '.join(r.name for r in results)} : {types}\n}}"
        )


@st.composite
def kernels(draw, sizes=(1, 2, 3, 5)):
    """A random kernel: its text. Nests share their axes, so that what one makes can be read by the next."""
    rank = draw(st.integers(0, 4))
    domain = tuple(draw(st.lists(st.sampled_from(sizes), min_size=rank, max_size=rank)))
    writer = Writer(domains=[domain] * draw(st.integers(1, 2)))
    results, earlier = [], []
    for nest in range(len(writer.domains)):
        values, wide = [], []
        if rank and draw(st.booleans()):
            values.append(draw(_product(writer, nest, rank)))
        for _ in range(draw(st.integers(1, 5))):
            choices = [*values, *earlier]
            reads = [draw(_operand(writer, nest, rank, choices)) for _ in range(draw(st.integers(0, 2)))]
            union = {a for r in reads for a in r.axes}
            if reads and union and draw(st.integers(0, 2)) == 0:
                made, kept = draw(_reduction(writer, nest, reads[0]))
                if kept:
                    values.append(made)
                else:
                    wide.append(made)
                continue
            more = draw(st.sets(st.integers(0, rank - 1))) if rank else set()
            axes = draw(st.permutations(sorted(union | more)))
            values.append(writer.map(reads, axes, draw(st.sampled_from(BODIES[len(reads)])), nest))
        results += wide
        results += [v for v in values if v is values[-1] or draw(st.booleans())]
        earlier += values
    return writer.text(results)


@st.composite
def _operand(draw, writer, nest, rank, values):
    if values and draw(st.integers(0, 2)):
        return draw(st.sampled_from(values))
    axes = draw(st.permutations(sorted(draw(st.sets(st.integers(0, rank - 1)))))) if rank else ()
    return writer.arg(axes, nest)


@st.composite
def _reduction(draw, writer, nest, read):
    """A reduction, and whether its result may be read in the nest: a small nest may read any."""
    axes = draw(st.sets(st.sampled_from(read.axes), min_size=1)) if read.axes else set()
    kept = draw(st.permutations([a for a in read.axes if a not in axes]))
    combine = draw(st.sampled_from(sorted(NEUTRAL)))
    made = writer.reduce(read, tuple(draw(st.permutations(sorted(axes)))), combine, kept, nest)
    return made, 0 not in axes or draw(st.integers(0, 3)) == 0


@st.composite
def _product(draw, writer, nest, rank):
    """A contraction whose parallel loops are the domain."""
    sides = {a: draw(st.sampled_from(["both", "left", "right"])) for a in range(rank)}
    extra = draw(st.lists(st.sampled_from((1, 2, 3)), min_size=1, max_size=2))
    summed = list(range(rank, rank + len(extra)))
    operands = []
    for side in ("left", "right"):
        axes = draw(st.permutations([a for a in range(rank) if sides[a] in (side, "both")] + summed))
        operands.append(writer.arg(axes, nest, extra))
    return writer.contraction(*operands, draw(st.permutations(range(rank))), nest)
