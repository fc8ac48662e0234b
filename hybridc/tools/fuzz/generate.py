"""Random programs over every registered operator, found by asking the operators' own interfaces.

An operator is proposed with attributes from one of its samples, changed at random, on values that the program has or on
new inputs. Its own shape and type inference and one eager call decide whether it is taken: a refusal must be one of the
library's errors. An operator that only a program of a user has (one that keeps a state, or without samples and with
attributes that are objects) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from hybridc import autograd
from hybridc import random as random_state
from hybridc.array.dispatch import invoke
from hybridc.array.ndarray import NDArray
from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator, Sample
from hybridc.dialects.operator_attribute import REQUIRED, Attribute, Shape
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.ground.nesting import as_list
from hybridc.tools.fuzz.check_program import is_raw
from hybridc.tools.fuzz.random_program import FLOATS, INTEGERS, Array, Input, ProgramStep, RandomProgram, nested

# Sizes of axes: few elements, as programs are many, with those that are special; sometimes one that is cut into tiles
# with a rest. LARGEST bounds the elements of an array, RANKS its axes.
SIZES = (0, 1, 1, 2, 2, 3, 3, 5, 7, 17)
LARGE = (31, 64, 129, 500)
LARGEST = 30000
RANKS = 5
# Values of attributes: the neutral elements, both signs, what is exact in half precision and what is not.
NUMBERS = (0, 1, -1, 2, 3, -2, 5)
REALS = (0.0, 1.0, -1.0, 0.5, 2.0, -0.25, 1e-3, 3.5)
DTYPES = ("float32",) * 8 + ("float64",) * 3 + ("float16",) * 3 + ("bfloat16",) * 2 + INTEGERS + FLOATS[-2:]


def program(seed: int, number: int) -> RandomProgram:
    """The program of this number among those of a seed."""
    return _ProgramWriter(Random(f"{seed}-{number}")).write()


def operators() -> list[type[Operator]]:
    """Every operator that random programs may use."""
    return [
        cls
        for name, cls in sorted(operator_registry.operators().items())
        if name.startswith("hybrid.") and _is_closed(cls)
    ]


def _is_closed(cls: type[Operator]) -> bool:
    """Whether samples or types say what its attributes may be."""
    if not cls.PURE or ("key" in cls.INPUTS and not cls.DRAWS):  # a key that random numbers follow is no array to pass
        return False
    if cls.as_number is not Operator.as_number:  # numbers are operands, which have no array of their own
        return False
    objects = any(a.kind in ("object", "Body") and a.default is REQUIRED for a in cls.ATTRIBUTES.values())
    return bool(cls.samples()) or not objects


class _Refused(Exception):
    """A proposal is not taken."""


class _ProgramWriter:
    """A program while it is written."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.inputs: list[Input] = []
        self.steps: list[ProgramStep] = []
        self.values: list[Array] = []  # inputs' first, which are numbered anew at the end
        self.origin: list[tuple[int, int]] = []  # of each value: step (-1: an input) and result index
        self.operands: list[tuple[int, ...]] = []
        self.main = random.choice(DTYPES)
        self.special = random.random() < 0.12
        self.broken = False  # an operator refused in a way it must not

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # --- the whole -------------------------------------------------------------------------------------------

    def write(self) -> RandomProgram:
        random = self.random
        sizes = LARGE if self.chance(0.1) else SIZES
        rank = random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 5))
        shape = tuple(random.choice(sizes) for _ in range(rank))
        while math.prod(shape) > LARGEST // 4:
            shape = shape[1:]
        self.new_input(shape, self.main)
        wanted = random.choice((2, 3, 5, 8, 12, 20, 35, 60))
        known = operators()
        for _ in range(4 * wanted):
            if len(self.steps) >= wanted or self.broken:
                break
            self.extend(random.choice(known))
        return self.finished()

    def finished(self) -> RandomProgram:
        """The program with inputs before results."""
        random = self.random
        of_inputs = [i for i, (step, _) in enumerate(self.origin) if step < 0]
        starts: list[int] = []
        total = len(of_inputs)
        for step in self.steps:
            starts.append(total)
            total += step.results
        number = {i: n for n, i in enumerate(of_inputs)}
        for i, (step, result) in enumerate(self.origin):
            if step >= 0:
                number[i] = starts[step] + result
        steps = [
            replace(s, operands=tuple(number[i] for i in given))
            for s, given in zip(self.steps, self.operands, strict=True)
        ]
        inputs = self.with_repeats()
        results = list(range(len(of_inputs), total)) or [0]
        used = {i for s in steps for i in s.operands}
        ends = [i for i in results if i not in used]
        outputs = ends[:6] + random.sample(results, min(len(results), random.randint(0, 3)))
        if self.chance(0.1):
            outputs.append(random.randrange(len(of_inputs)))  # an input as it is
        heads = [i for i in range(len(outputs)) if self.chance(0.6)] if self.chance(0.75) else []
        shapes = {n for each in inputs if each.fill != "literal" and not each.parameter for n in each.shape}
        sizes: list[tuple[int, int]] = []
        if shapes and self.chance(0.5):
            for _ in range(random.randint(1, 3)):
                sizes.append((random.choice(sorted(shapes)), random.choice(SIZES)))
        if self.broken:
            outputs, heads, sizes = [results[-1]], [], []
        tries = [t for t, p in (("parameters", 0.4), ("writes", 0.4), ("threads", 0.15)) if self.chance(p)]
        return RandomProgram(
            tuple(inputs),
            tuple(steps),
            tuple(outputs),
            tuple(heads),
            training=self.chance(0.75),
            seed=random.randrange(100),
            sizes=tuple(sizes),
            tries=tuple(tries),
            elements=random.choice((None, 4, 16, 100, 1000)),
        )

    def with_repeats(self) -> list[Input]:
        """The inputs, some of them parameters, and some the same array as another one."""
        mutated = {i for s, given in zip(self.steps, self.operands, strict=True) for i in _mutated(s, given)}
        mutated_inputs = {n for n, i in enumerate(i for i, o in enumerate(self.origin) if o[0] < 0) if i in mutated}
        found: list[Input] = []
        for n, each in enumerate(self.inputs):
            if n in mutated_inputs:
                found.append(replace(each, req="null", layout="plain"))
                continue
            alike = [
                m
                for m, other in enumerate(found)
                if (other.shape, other.dtype, other.fill) == (each.shape, each.dtype, each.fill)
                and other.same_as is None
                and not other.parameter
                and m not in mutated_inputs
                and each.fill != "literal"
            ]
            if alike and self.chance(0.08):
                found.append(replace(found[alike[0]], same_as=alike[0]))
            elif n and 0 not in each.shape and each.shape and is_float(np.dtype(each.dtype)) and self.chance(0.3):
                found.append(replace(each, parameter=True, layout="plain"))
            else:
                found.append(each)
        return found

    # --- inputs ----------------------------------------------------------------------------------------------

    def add_value(self, data: Array, step: int, result: int) -> int:
        self.values.append(data)
        self.origin.append((step, result))
        return len(self.values) - 1

    def described(self, shape: Shape, dtype: str, low: float | None = None, high: float | None = None) -> Input:
        """An input of this shape and dtype, with random values."""
        random = self.random
        fill = "normal" if low is None else "uniform"
        if self.special and self.chance(0.5):
            fill = "special"
        elif self.chance(0.2):
            fill = random.choice(("whole", "constant"))
        layout = random.choice(("plain", "plain", "plain", "rows", "columns", "transposed"))
        req = random.choice(("write", "write", "write", "add", "null"))
        return Input(
            shape,
            dtype,
            fill,
            random.randrange(1000),
            -2.0 if low is None else low,
            2.0 if high is None else high,
            layout=layout,
            req=req if is_float(np.dtype(dtype)) else "null",
        )

    def new_input(self, shape: Shape, dtype: str, low: float | None = None, high: float | None = None) -> int:
        """A new input; the index of its value."""
        return self.enter(self.described(shape, dtype, low, high))

    def enter(self, given: Input) -> int:
        self.inputs.append(given)
        return self.add_value(given.array(), -1, 0)

    # --- steps -----------------------------------------------------------------------------------------------

    def extend(self, cls: type[Operator]) -> None:
        """Try to apply an operator, a few times."""
        for _ in range(4):
            inputs, values, origin = len(self.inputs), len(self.values), len(self.origin)
            try:
                attrs, operands = self.from_sample(cls) if self.chance(0.4) else self.at_will(cls)
                self.apply(cls, attrs, operands)
                return
            except (_Refused, MXNetError):
                del self.inputs[inputs:], self.values[values:], self.origin[origin:]

    def apply(self, cls: type[Operator], attrs: dict[str, Any], operands: Sequence[int]) -> None:
        """Put the operator into the program, if it takes these operands."""
        data = [self.values[i] for i in operands]
        try:
            results = self.results(cls, attrs, data)
        except _Refused:
            raise
        except (
            Exception
        ) as error:  # perhaps neither a result nor an error of the library: a finding, which the check will tell
            if not is_raw(error):
                raise
            self.broken = True
            results = []
        if not self.broken:
            self.judge(data, results)
        self.steps.append(ProgramStep(cls.NAME, (), attrs, max(1, len(results))))
        self.operands.append(tuple(operands))
        for i, y in enumerate(results or [np.zeros(1, np.float32)]):
            self.add_value(y, len(self.steps) - 1, i)

    def results(self, cls: type[Operator], attrs: dict[str, Any], data: Sequence[Array]) -> list[Array]:
        """The results of the operator; its shapes are inferred first, so that nothing huge is computed."""
        op = cls.bind(**attrs)
        if not op.VARIADIC and len(data) + int(op.DRAWS) != len(op.input_names()):
            raise _Refused
        key: list[Shape] = [(2,)] if op.DRAWS else []
        shapes = op.infer_shape([x.shape for x in data] + key)[1]
        if any(len(s) > RANKS or math.prod(s) > LARGEST or min(s, default=0) < 0 for s in shapes):
            raise _Refused
        with random_state.isolated(1), np.errstate(all="ignore"), autograd.predict_mode():
            found = as_list(invoke(op, [NDArray(x.copy()) for x in data]))
        return [y._data for y in found]

    def judge(self, data: Sequence[Array], results: Sequence[Array]) -> None:
        """Refuse, most of the time, what would make the rest of the program say little."""
        for y in results:
            if not is_float(y.dtype) or self.chance(0.08):
                continue
            wide = np.abs(y.astype(np.float64))
            clean = all(np.isfinite(x.astype(np.float64)).all() for x in data)
            if clean and not (np.isfinite(wide).all() and wide.max(initial=0) < 1e4):
                raise _Refused
            if clean and wide.size and not wide.any() and self.chance(0.7):
                raise _Refused

    # --- operands and attributes from samples ----------------------------------------------------------------

    def from_sample(self, cls: type[Operator]) -> tuple[dict[str, Any], list[int]]:
        """A sample of the operator, on other sizes and on values of the program where they fit."""
        samples = cls.samples()
        if not samples:
            return self.at_will(cls)
        sample = self.random.choice(list(samples))
        attrs = self.changed(cls, sample.attrs, 0.1, None)
        dtype = self.main if self.chance(0.85) else self.random.choice(DTYPES)
        sizes = self.size_map(sample)
        operands = [self.given(each, sample, sizes, dtype) for each in sample.inputs]
        return attrs, operands

    def size_map(self, sample: Sample) -> dict[int, int]:
        """New sizes for those of a sample: the same, random ones, or those of a value."""
        shapes = [_shape_of(x) for x in sample.inputs]
        choice = self.random.random()
        alike = [v.shape for v in self.values if len(v.shape) == len(shapes[0])] if shapes else []
        if choice < 0.7 and alike:
            return dict(zip(shapes[0], self.random.choice(alike[-8:]), strict=True))
        if choice < 0.85:
            return {}
        return {n: self.random.choice(SIZES) for s in shapes for n in s}

    def given(self, each: Any, sample: Sample, sizes: dict[int, int], dtype: str) -> int:
        """An input of a sample as a value of the program."""
        if hasattr(each, "dtype"):
            return self.enter(self.literal(each, dtype))
        given: Shape = tuple(each)
        shape = tuple(sizes.get(n, n) for n in given)
        shape = given if math.prod(shape) > LARGEST else shape
        alike = [i for i, v in enumerate(self.values) if v.shape == shape and v.dtype == np.dtype(dtype)]
        if alike and self.chance(0.7):
            return self.random.choice(alike)
        return self.new_input(shape, dtype, sample.low, sample.high)

    def literal(self, data: Array, dtype: str) -> Input:
        """An array of a sample; now and then with values that are out of range."""
        if data.dtype.kind == "f" and not (data % 1 == 0).all():
            return self.described(data.shape, dtype)
        kept = data.dtype.name if data.dtype.kind in "iu" else dtype
        values = np.array(data, np.float64 if data.dtype.kind == "f" else np.int64)
        if values.size and self.chance(0.2):
            values.flat[self.random.randrange(values.size)] = self.random.choice((-1, 0, 1, 3, 9, 100, -7))
        return Input(data.shape, kept, "literal", values=nested(values), req="null")

    # --- operands and attributes at will ---------------------------------------------------------------------

    def at_will(self, cls: type[Operator]) -> tuple[dict[str, Any], list[int]]:
        """Any value as the first operand, others that go with it, and attributes of the right types."""
        samples = cls.samples()
        base = dict(self.random.choice(list(samples)).attrs) if samples and self.chance(0.5) else {}
        first = self.pick()
        shape = self.values[first].shape
        attrs = self.changed(cls, base, 0.5, shape)
        op = cls.bind(**attrs)
        names = [n for n in op.input_names() if not (op.DRAWS and n == "key")]
        if op.VARIADIC:
            alike = [i for i, v in enumerate(self.values) if v.dtype == self.values[first].dtype]
            same = [i for i in alike if self.values[i].shape == shape] if self.chance(0.7) else alike
            return attrs, [first, *self.random.choices(same, k=self.random.randint(0, 3))]
        if not names:
            return attrs, []
        known: list[Shape | None] = [shape, *[None] * (len(names) - 1)]
        keys: list[Shape | None] = [(2,)] if op.DRAWS else []
        full = op.complete_shapes([*known, *keys], [None] * op.num_outputs())
        operands = [first]
        for i in range(1, len(names)):
            operands.append(self.partner(cls, first, full[i]))
        if len(operands) == 2 and self.chance(0.3):
            operands.reverse()
        return attrs, operands

    def pick(self) -> int:
        """A value, rather a late one."""
        count = len(self.values)
        return self.random.randrange(max(0, count - 5), count) if self.chance(0.6) else self.random.randrange(count)

    def partner(self, cls: type[Operator], first: int, wanted: Shape | None) -> int:
        """A value that goes with the first one, or a new input."""
        random = self.random
        shape, dtype = self.values[first].shape, self.values[first].dtype.name
        goal: Shape = shape if wanted is None or -1 in wanted else wanted
        fits = [
            i
            for i, v in enumerate(self.values)
            if (v.dtype.name == dtype or not cls.SAME_DTYPE) and _broadcasts(v.shape, goal)
        ]
        if fits and self.chance(0.6):
            return random.choice(fits)
        if self.chance(0.3):  # one that broadcasts
            goal = tuple([n if self.chance(0.6) else 1 for n in goal][random.randrange(len(goal) + 1) :])
        if not cls.SAME_DTYPE and self.chance(0.4):
            dtype = random.choice(DTYPES)
        return self.new_input(goal, dtype)

    def changed(
        self, cls: type[Operator], attrs: dict[str, Any], probability: float, shape: Shape | None
    ) -> dict[str, Any]:
        """Attributes, each with this probability replaced; those required are there."""
        found: dict[str, Any] = {}
        for name, declared in cls.ATTRIBUTES.items():
            if declared.doc.startswith("internal"):
                continue
            if name in attrs and not self.chance(probability):
                found[name] = _plain(attrs[name])
            elif declared.default is REQUIRED or self.chance(probability):
                found[name] = self.attribute(declared, shape)
        return found

    def attribute(self, declared: Attribute, shape: Shape | None) -> Any:
        """A value of an attribute's type, in its range."""
        random = self.random
        shape = shape or (2, 3)
        rank = max(1, len(shape))
        if declared.enum is not None:
            return random.choice(declared.enum)
        if declared.optional and self.chance(0.2):
            return None
        low = -math.inf if declared.low is None else declared.low
        high = math.inf if declared.high is None else declared.high
        match declared.kind:
            case "bool":
                return self.chance(0.5)
            case "int":
                pool = [*NUMBERS, *shape, *range(-rank, rank)]
                return random.choice([n for n in pool if low <= n <= high] or [int(low)])
            case "float":
                return random.choice([n for n in REALS if low <= n <= high] or [low])
            case "Shape" | "Axis" | "Slice":
                return self.tuple_of(declared.kind, shape, rank)
            case "Floats":
                return tuple(random.choice(REALS) for _ in range(random.randint(1, 3)))
            case "DType":
                return random.choice((self.main, self.main, *FLOATS, *INTEGERS))
            case _:
                if declared.default is REQUIRED:
                    raise _Refused
                return _plain(declared.default)

    def tuple_of(self, kind: str, shape: Shape, rank: int) -> Any:
        """Axes, a permutation, a shape, or bounds of a slice."""
        random = self.random
        axes = list(range(rank))
        choice = random.randrange(5)
        if kind == "Axis":
            some = random.sample(axes, random.randint(1, rank))
            return random.choice((random.choice(axes) - rank * self.chance(0.3), tuple(some), tuple(sorted(some))))
        if choice == 0:
            random.shuffle(axes)
            return tuple(axes)
        if choice == 1:
            return tuple(random.sample(axes, random.randint(0, rank)))
        if choice == 2:
            return random.choice(((-1,), (-1, *shape[:1]), shape[::-1], (math.prod(shape),), (1, *shape), (*shape, 1)))
        if choice == 3 or kind == "Slice":
            bounds = [random.choice((0, 1, n // 2, n, -1, -2)) for n in shape]
            if kind == "Slice":
                return tuple(None if self.chance(0.3) else n for n in bounds)
            return tuple(bounds)
        return tuple(random.choice(SIZES) for _ in range(random.randint(1, 4)))


def _mutated(step: ProgramStep, operands: Sequence[int]) -> Iterator[int]:
    try:
        op = step.bound()
    except MXNetError:
        return
    for i in {*op.mutated, *op.auxiliary()}:
        if i < len(operands):
            yield operands[i]


def _shape_of(given: Any) -> Shape:
    shape: Any = getattr(given, "shape", given)
    return tuple(shape)


def _broadcasts(a: Shape, b: Shape) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def _plain(value: Any) -> Any:
    """An attribute as text can have it."""
    if isinstance(value, np.dtype | type):
        return str(np.dtype(value))  # pyright: ignore[reportUnknownArgumentType]
    return nested(np.asarray(value)) if hasattr(value, "dtype") else value
