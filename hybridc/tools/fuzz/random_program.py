"""Random programs as data: inputs, steps, what is returned, and what is to be tried with them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.array.dispatch import invoke
from hybridc.array.ndarray import NDArray
from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import is_float
from hybridc.gluon.block import HybridBlock
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.nd.creation import array

Array = npt.NDArray[Any]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int32", "int64")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0)
EXTREME = (*SPECIAL, 1e-30, -3e38, 1e-45, 65504.0, 88.8, -104.0)
# The ends of integers' ranges, and the first one that double precision lacks.
EXTREME_INTEGERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**53 + 1, -(2**63), 2**63 - 1, 127, 255)


@dataclass(frozen=True)
class Input:
    """An input of a program: what array it is, how it lies in memory, and what its gradient is written with."""

    shape: Shape
    dtype: str
    fill: str = "normal"  # normal, uniform, whole, constant, special; or literal, with values
    seed: int = 0
    low: float = -2.0
    high: float = 2.0
    values: Any = None  # of a literal: nested tuples
    layout: str = "plain"  # or rows, columns (parts of a larger array), transposed
    req: str = "write"  # or add, null
    parameter: bool = False  # of the block, rather than an argument
    same_as: int | None = None  # the argument that is passed here once more

    def array(self) -> Array:
        """The values, in the input's dtype."""
        rng = np.random.default_rng(self.seed)
        dtype = np.dtype(self.dtype)
        with np.errstate(all="ignore"):
            if self.fill == "literal":
                return np.array(self.values, dtype=np.int64 if dtype.kind in "iu" else np.float64).astype(dtype)
            if self.fill == "special":
                floats = EXTREME if self.seed % 2 else SPECIAL
                pool = np.array(EXTREME_INTEGERS if dtype.kind in "iu" else floats)
                return rng.choice(pool, self.shape).astype(dtype)
            if dtype.kind in "iu":
                low = 0 if dtype.kind == "u" else -9
                return rng.integers(low, 9, self.shape).astype(dtype)
            if self.fill == "whole":
                return rng.integers(-3, 4, self.shape).astype(dtype)
            if self.fill == "constant":
                return np.full(self.shape, self.low).astype(dtype)
            if self.fill == "uniform":
                return rng.uniform(self.low, self.high, self.shape).astype(dtype)
            return rng.normal(size=self.shape).astype(dtype)

    def placed(self, values: Array) -> NDArray:
        """An NDArray of these values in the input's memory layout."""
        if self.layout == "transposed" and values.ndim > 1:
            return NDArray(np.ascontiguousarray(values.T).T)
        if self.layout == "rows" and values.ndim:
            base = np.concatenate([values[:1], values, values[:1]])
            return array(base, dtype=values.dtype)[len(values[:1]) : len(values[:1]) + len(values)]
        if self.layout == "columns" and values.ndim > 1:
            base = array(np.concatenate([values, values], axis=1), dtype=values.dtype)
            return base[:, values.shape[1] :]
        return array(values, dtype=values.dtype)


@dataclass(frozen=True)
class ProgramStep:
    """One operator applied to earlier values; its results are the next values."""

    op: str
    operands: tuple[int, ...]
    attrs: Mapping[str, Any]
    results: int = 1

    def bound(self, wide: bool = False) -> Operator:
        """The operator; ``wide``: with float64 wherever an attribute names a floating-point dtype."""
        cls = operator_registry.operator(self.op)
        return cls.bind(**(widened(cls, self.attrs) if wide else self.attrs))


def widened(cls: type[Operator], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with float64 for every floating-point dtype, defaults included."""
    found = dict(attrs)
    for name, declared in cls.ATTRIBUTES.items():
        value = found.get(name, declared.default)
        if declared.kind == "DType" and value is not None and is_float(np.dtype(value)):
            found[name] = "float64"
    return found


@dataclass(frozen=True)
class RandomProgram:
    """Inputs, steps and outputs, and how they are tried."""

    inputs: tuple[Input, ...]
    steps: tuple[ProgramStep, ...]
    outputs: tuple[int, ...]
    heads: tuple[int, ...] = ()  # of the outputs: those from which gradients start; none: no backward
    training: bool = True  # whether layers train while the backward is recorded
    seed: int = 0
    sizes: tuple[tuple[int, int], ...] = ()  # sizes and what they become in further calls
    tries: tuple[str, ...] = ()  # of parameters, writes, threads
    elements: int | None = None  # threads and tiles as if so few elements were many

    def starts(self) -> list[int]:
        """The index of the first result of each step."""
        numbers = [len(self.inputs)]
        for step in self.steps:
            numbers.append(numbers[-1] + step.results)
        return numbers

    def to_json(self) -> str:
        """The program as text."""
        return json.dumps(dataclasses.asdict(self), default=str)

    @staticmethod
    def from_json(text: str) -> RandomProgram:
        """The program that a text says."""
        given = _tuples(json.loads(text))
        inputs = tuple(Input(**each) for each in given.pop("inputs"))
        steps = tuple(ProgramStep(**each) for each in given.pop("steps"))
        return RandomProgram(inputs, steps, **given)

    def resized(self, sizes: Mapping[int, int]) -> RandomProgram:
        """The program on inputs of other sizes; literals and parameters stay."""
        inputs = [
            each
            if each.fill == "literal" or each.parameter
            else dataclasses.replace(each, shape=tuple(sizes.get(n, n) for n in each.shape))
            for each in self.inputs
        ]
        return dataclasses.replace(self, inputs=tuple(inputs))

    def arrays(self) -> list[Array]:
        """The values of the inputs."""
        found: list[Array] = []
        for each in self.inputs:
            found.append(each.array() if each.same_as is None else found[each.same_as])
        return found


def nested(values: Array) -> Any:
    """An array as nested tuples of numbers."""
    return values.item() if values.ndim == 0 else tuple(nested(v) for v in values)


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def evaluate(program: RandomProgram, values: Sequence[Any], wide: bool = False, noise: Any = None) -> list[Any]:
    """All values of a program: NDArrays or Symbols. ``noise`` may change operands before and results after a step."""
    known = list(values)
    for step in program.steps:
        op = step.bound(wide)
        operands = [known[i] for i in step.operands]
        if noise is not None:
            operands = noise.before(op, step.operands, operands)
        results = as_list(invoke(op, operands))
        known += results if noise is None else noise.after(op, step.operands, results)
    return known


class ProgramNet(HybridBlock):
    """A program as a block; the inputs that are parameters are its own."""

    def __init__(self, program: RandomProgram) -> None:
        super().__init__()
        self.program = program
        with self.name_scope():
            for i, each in enumerate(program.inputs):
                if each.parameter:
                    setattr(self, f"v{i}", self.params.get(f"v{i}", shape=each.shape, dtype=each.dtype, init="zeros"))
        self.initialize()

    def hybrid_forward(self, F: Any, *args: Any, **parameters: Any) -> list[Any]:
        """The outputs of the program."""
        rest = iter(args)
        values = [parameters[f"v{i}"] if each.parameter else next(rest) for i, each in enumerate(self.program.inputs)]
        known = evaluate(self.program, values)
        return [known[i] for i in self.program.outputs]
