"""Making a program that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from hybridc.dialects import operator_registry
from hybridc.dtypes import is_float
from hybridc.tools.fuzz.check_program import values_of
from hybridc.tools.fuzz.random_program import Array, Input, ProgramStep, RandomProgram, nested

Fails = Callable[[RandomProgram], bool]


def shrink(program: RandomProgram, fails: Fails, seconds: float = 60.0) -> RandomProgram:
    """The smallest program found within so many seconds that ``fails``."""
    until = time.monotonic() + seconds
    while True:
        for smaller in _candidates(program):
            if time.monotonic() > until:
                return program
            if fails(smaller):
                program = smaller
                break
        else:
            return program


def _candidates(program: RandomProgram) -> Iterator[RandomProgram]:
    """Smaller programs, those that are smaller by most first."""
    yield from _single(program, _quarters(program))
    yield from _fewer_tries(program)
    yield from _fewer_outputs(program)
    yield from _single(program, range(1, len(program.steps)))
    yield from _cuts(program)
    yield from _simpler_inputs(program)
    yield from _smaller_shapes(program)
    yield from _fewer_attributes(program)


def _fewer_tries(program: RandomProgram) -> Iterator[RandomProgram]:
    if program.tries:
        yield replace(program, tries=())
        for i in range(len(program.tries)):
            yield replace(program, tries=program.tries[:i] + program.tries[i + 1 :])
    if program.sizes:
        yield replace(program, sizes=())
        for i in range(len(program.sizes)):
            yield replace(program, sizes=program.sizes[:i] + program.sizes[i + 1 :])
    if program.heads:
        yield replace(program, heads=())
    if program.elements is not None:
        yield replace(program, elements=None)
    if program.training:
        yield replace(program, training=False)
    if program.seed:
        yield replace(program, seed=0)


def _fewer_outputs(program: RandomProgram) -> Iterator[RandomProgram]:
    count = len(program.outputs)
    if count > 1:
        for i in range(count):
            yield _returning(program, [i])
        for i in range(count):
            yield _returning(program, [j for j in range(count) if j != i])
    if len(program.heads) > 1:
        for i in program.heads:
            yield replace(program, heads=tuple(h for h in program.heads if h != i))


def _returning(program: RandomProgram, kept: Sequence[int]) -> RandomProgram:
    heads = tuple(n for n, i in enumerate(kept) if i in program.heads)
    return trimmed(replace(program, outputs=tuple(program.outputs[i] for i in kept), heads=heads))


def _quarters(program: RandomProgram) -> list[int]:
    """The steps, counted from 1, at which a quarter, a half and three quarters of the program end."""
    count = len(program.steps)
    return sorted({count // 4, count // 2, 3 * count // 4} - {0, count})


def _single(program: RandomProgram, steps: Sequence[int]) -> Iterator[RandomProgram]:
    """The results of one of these steps, counted from 1, instead of the outputs."""
    starts = program.starts()
    for at in steps:
        outputs = tuple(range(starts[at - 1], starts[at]))
        yield trimmed(replace(program, outputs=outputs, heads=(0,) if program.heads else ()))


def _cuts(program: RandomProgram) -> Iterator[RandomProgram]:
    """A step's results as inputs instead, or an operand of another step in place of its result."""
    starts = program.starts()
    values = _eager_values(program)
    for n, step in enumerate(program.steps):
        if values is not None and all(values[i].size <= 64 for i in range(starts[n], starts[n + 1])):
            yield trimmed(_cut(program, n, [_literal(values[i]) for i in range(starts[n], starts[n + 1])]))
        if values is not None:
            fills = [
                Input(values[i].shape, values[i].dtype.name, req="write" if is_float(values[i].dtype) else "null")
                for i in range(starts[n], starts[n + 1])
            ]
            yield trimmed(_cut(program, n, fills))
        if step.operands and step.results == 1:
            yield trimmed(_substituted(program, starts[n], step.operands[0]))


def _eager_values(program: RandomProgram) -> list[Array] | None:
    try:
        with np.errstate(all="ignore"):
            return [x.asnumpy() for x in values_of(program)]
    except Exception:  # the program that fails may do so in eager calls
        return None


def _literal(values: Array) -> Input:
    req = "write" if is_float(values.dtype) else "null"
    wide = values.astype(np.float64) if is_float(values.dtype) else values
    return Input(values.shape, values.dtype.name, "literal", values=nested(wide), req=req)


def _cut(program: RandomProgram, n: int, inputs: Sequence[Input]) -> RandomProgram:
    """Step ``n`` replaced by inputs."""
    first, start, count = len(program.inputs), program.starts()[n], program.steps[n].results

    def moved(i: int) -> int:
        if i < first:
            return i
        if i < start:
            return i + count
        return first + i - start if i < start + count else i

    steps = [s for m, s in enumerate(program.steps) if m != n]
    return replace(
        program,
        inputs=(*program.inputs, *inputs),
        steps=tuple(replace(s, operands=tuple(moved(i) for i in s.operands)) for s in steps),
        outputs=tuple(moved(i) for i in program.outputs),
    )


def _substituted(program: RandomProgram, old: int, new: int) -> RandomProgram:
    """A value in place of another one, wherever that is used."""
    steps = [replace(s, operands=tuple(new if i == old else i for i in s.operands)) for s in program.steps]
    return replace(program, steps=tuple(steps), outputs=tuple(new if i == old else i for i in program.outputs))


def trimmed(program: RandomProgram) -> RandomProgram:
    """The program without steps and inputs that no output needs."""
    starts = program.starts()
    needed = set(program.outputs)
    kept: list[int] = []
    for n in reversed(range(len(program.steps))):
        if needed.intersection(range(starts[n], starts[n + 1])):
            needed.update(program.steps[n].operands)
            kept.append(n)
    kept.reverse()
    inputs = [i for i in range(len(program.inputs)) if i in needed]
    inputs = inputs or [0]
    numbers = {old: new for new, old in enumerate(inputs)}
    total = len(inputs)
    for n in kept:
        for i in range(program.steps[n].results):
            numbers[starts[n] + i] = total + i
        total += program.steps[n].results
    return replace(
        program,
        inputs=tuple(_kept_alias(program.inputs[i], numbers) for i in inputs),
        steps=tuple(
            replace(program.steps[n], operands=tuple(numbers[i] for i in program.steps[n].operands)) for n in kept
        ),
        outputs=tuple(numbers[i] for i in program.outputs),
    )


def _kept_alias(given: Input, numbers: dict[int, int]) -> Input:
    if given.same_as is None:
        return given
    return replace(given, same_as=numbers.get(given.same_as))


def _simpler_inputs(program: RandomProgram) -> Iterator[RandomProgram]:
    simplest: list[dict[str, object]] = [
        {"same_as": None},
        {"parameter": False},
        {"layout": "plain"},
        {"req": "null"},
        {"dtype": "float32"},
        {"fill": "constant", "low": 1.0, "values": None},
        {"fill": "normal", "values": None},
    ]
    for i, each in enumerate(program.inputs):
        for change in simplest:
            if each.dtype.lstrip("u").startswith("int") and "dtype" in change:
                continue
            if change.get("fill") == "normal" and each.fill == "constant":
                continue
            if change.get("req") == "null" and each.req == "null":
                continue
            simpler = replace(each, **change)  # pyright: ignore[reportArgumentType]
            if simpler != each:
                yield _with_input(program, i, simpler)


def _with_input(program: RandomProgram, i: int, given: Input) -> RandomProgram:
    return replace(program, inputs=(*program.inputs[:i], given, *program.inputs[i + 1 :]))


def _smaller_shapes(program: RandomProgram) -> Iterator[RandomProgram]:
    """One size everywhere becomes another; a size of one input; an input without an axis."""
    sizes = sorted({n for x in program.inputs if x.fill != "literal" for n in x.shape if n > 1}, reverse=True)
    for n in sizes:
        for smaller in (1, 2, n // 2, n - 1):
            if 0 < smaller < n:
                shapes = [
                    x if x.fill == "literal" else replace(x, shape=tuple(smaller if m == n else m for m in x.shape))
                    for x in program.inputs
                ]
                yield replace(program, inputs=tuple(shapes))
    for i, each in enumerate(program.inputs):
        if each.fill == "literal":
            continue
        for axis, n in enumerate(each.shape):
            yield _with_input(program, i, replace(each, shape=each.shape[:axis] + each.shape[axis + 1 :]))
            if n > 1:
                yield _with_input(program, i, replace(each, shape=(*each.shape[:axis], 1, *each.shape[axis + 1 :])))


def _fewer_attributes(program: RandomProgram) -> Iterator[RandomProgram]:
    for n, step in enumerate(program.steps):
        known = operator_registry.operator(step.op).ATTRIBUTES
        for name in step.attrs:
            if step.attrs[name] != known[name].default:
                attrs = {k: v for k, v in step.attrs.items() if k != name}
                yield _with_step(program, n, replace(step, attrs=attrs))


def _with_step(program: RandomProgram, n: int, step: ProgramStep) -> RandomProgram:
    return replace(program, steps=(*program.steps[:n], step, *program.steps[n + 1 :]))
