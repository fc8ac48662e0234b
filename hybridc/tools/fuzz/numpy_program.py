"""Random programs of ``mx.np``: expressions that NumPy computes, too, so its float64 results say what is right.

Values have float64, int32 or bool, mostly; where one has a narrower float, as quotients of integers have, results may
differ by its rounding.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from random import Random
from typing import Any

import numpy as onp
import numpy.typing as npt

from hybridc import autograd, np
from hybridc.dtypes import FLOAT64
from hybridc.errors import MXNetError
from hybridc.gluon.block import HybridBlock
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.tools.fuzz.check_program import Failure

Array = npt.NDArray[Any]

_UNARY = (
    "abs negative sign square sqrt cbrt exp expm1 log1p sin cos tanh arctan sinh arcsinh floor ceil trunc rint "
    "logical_not isnan isfinite ravel transpose squeeze copy atleast_1d atleast_2d cumsum flip sort argsort"
)
_BINARY = (
    "add subtract multiply true_divide maximum minimum hypot arctan2 copysign equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_xor power outer append"
)
_REDUCED = "sum prod mean max min var std any all argmax argmin"
#: Expressions; ``{a}``, ``{b}``, ``{c}`` are values, ``{axis}`` is an axis or None, ``{n}`` a small number.
TEMPLATES = (
    *(f"np.{name}({{a}})" for name in _UNARY.split()),
    *(f"np.{name}({{a}}, {{b}})" for name in _BINARY.split()),
    *(f"np.{name}({{a}}, axis={{axis}})" for name in _REDUCED.split()),
    *(f"np.{name}({{a}}, axis={{n}}, keepdims=True)" for name in ("sum", "max", "mean")),
    *(f"{{a}} {symbol} {{b}}" for symbol in ("+", "-", "*", "/", "<", ">=", "==")),
    *(f"{{a}} {symbol} {{n}}" for symbol in ("+", "*", "**", ">")),
    "{n} - {a}",
    "np.mod({a}, 3)",
    "2.5 * {a}",
    "-{a}",
    "{a}.T",
    "{a}.reshape(-1)",
    "{a}[0]",
    "{a}[-1, ...]",
    "{a}[..., None]",
    "{a}[::-1]",
    "{a}[1:, :1]",
    "{a}[[0, -1]]",
    "np.where({a} > 0, {b}, {c})",
    "np.clip({a}, -1, 1)",
    "np.concatenate([{a}, {b}], axis={n})",
    "np.stack([{a}, {b}], axis={n})",
    "np.expand_dims({a}, {n})",
    "np.repeat({a}, 2, axis={axis})",
    "np.tile({a}, (2, 1))",
    "np.roll({a}, {n}, axis={axis})",
    "np.swapaxes({a}, 0, -1)",
    "np.moveaxis({a}, 0, -1)",
    "np.broadcast_to({a}, (2,) + {a}.shape)",
    "np.split({a}, 2, axis={n})[1]",
    "np.tril({a})",
    "np.dot({a}, {b})",
    "np.matmul({a}, {b})",
    "np.tensordot({a}, {b}, axes=1)",
    "np.einsum('ij,kj->ik', {a}, {b})",
    "np.linalg.norm({a})",
    "np.take({a}, np.array([0, 0]), axis={n})",
    "np.diff({a}, axis={n})",
    "np.pad({a}, 1)",
    "np.zeros_like({a})",
    "np.diag({a})",
)
_SHAPES = ((), (1,), (3,), (4,), (2, 3), (3, 4), (3, 1), (1, 4), (2, 3, 4), (2, 1, 3), (0, 3))
_LARGEST = 2000  # elements of a value
_SOLID = 1e150  # beyond it, products leave float64


@dataclass(frozen=True)
class NumpyInput:
    """An input: its values follow from the seed."""

    shape: tuple[int, ...]
    dtype: str
    seed: int

    def array(self) -> Array:
        """The values."""
        rng = onp.random.default_rng(self.seed)
        values: Array = rng.integers(-3, 4, self.shape) if self.dtype != "float64" else rng.normal(size=self.shape)
        return onp.asarray(values > 0 if self.dtype == "bool" else values).astype(self.dtype)


@dataclass(frozen=True)
class NumpyProgram:
    """Inputs ``v0``, ``v1``, …, an expression for each further value, and which values are the results."""

    inputs: tuple[NumpyInput, ...]
    steps: tuple[str, ...]
    outputs: tuple[int, ...]

    def to_json(self) -> str:
        """The program as text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> NumpyProgram:
        """The program that a text says."""
        given = json.loads(text)
        inputs = tuple(NumpyInput(tuple(x["shape"]), x["dtype"], x["seed"]) for x in given["inputs"])
        return NumpyProgram(inputs, tuple(given["steps"]), tuple(given["outputs"]))

    def values(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """All values, computed by ``mx.np`` or by NumPy."""
        scope = {"np": module, **{f"v{i}": x for i, x in enumerate(inputs)}}
        for i, step in enumerate(self.steps, len(self.inputs)):
            scope[f"v{i}"] = eval(step, scope)  # expressions of the templates alone
        return [scope[f"v{i}"] for i in range(len(self.inputs) + len(self.steps))]

    def names(self) -> list[str]:
        """The steps, without the values that they use."""
        return [step.split("(")[0] if step.startswith("np.") else step.lstrip("v0123456789") for step in self.steps]


class _Network(HybridBlock):
    """The program as a block."""

    def __init__(self, program: NumpyProgram) -> None:
        super().__init__()
        self._program = program

    def forward(self, *args: Any, **_: Any) -> Any:
        values = self._program.values(np, args)
        return [np.array(values[i]) if not hasattr(values[i], "shape") else values[i] for i in self._program.outputs]


# --- making ------------------------------------------------------------------------------------------------------


def numpy_program(seed: int, number: int) -> NumpyProgram:
    """The program of a seed and a number."""
    random = Random(f"numpy-{seed}-{number}")
    dtypes = ("float64", "float64", "float64", "int32", "bool")
    inputs = tuple(
        NumpyInput(random.choice(_SHAPES), random.choice(dtypes), random.randrange(1000))
        for _ in range(random.randint(1, 3))
    )
    program = NumpyProgram(inputs, (), (0,))
    arrays = [x.array() for x in inputs]
    wanted = random.randint(2, 12)
    for _ in range(20 * wanted):
        if len(program.steps) == wanted:
            break
        count = len(inputs) + len(program.steps)
        step = random.choice(TEMPLATES).format(
            **{name: f"v{random.randrange(count)}" for name in "abc"},
            axis=random.choice((None, 0, -1, 1)),
            n=random.choice((0, 1, 2, -1)),
        )
        longer = replace(program, steps=(*program.steps, step))
        if _is_tame(longer, arrays):
            program = longer
    last = len(inputs) + len(program.steps)
    chosen = {last - 1, *(random.randrange(last) for _ in range(random.randint(0, 2)))}
    return replace(program, outputs=tuple(sorted(chosen)))


def _is_tame(program: NumpyProgram, arrays: Sequence[Array]) -> bool:
    """Whether NumPy computes the last step, in numbers that are neither too many nor too large."""
    try:
        with onp.errstate(all="ignore"):
            value = onp.asarray(program.values(onp, arrays)[-1])
    except (ValueError, TypeError, IndexError):
        return False
    solid = value.dtype.kind in "fiub" and value.size <= _LARGEST
    return solid and not (onp.abs(value[onp.isfinite(value)].astype(float)) > _SOLID).any()


# --- checking ----------------------------------------------------------------------------------------------------


def check_numpy(program: NumpyProgram) -> Failure | None:
    """What does not hold: results are NumPy's, and compiled they are those of eager calls, gradients too."""
    arrays = [x.array() for x in program.inputs]
    with onp.errstate(all="ignore"):
        expected = [onp.asarray(program.values(onp, arrays)[i]) for i in program.outputs]
    network = _Network(program)
    try:
        values = program.values(np, [np.array(a) for a in arrays])
        eager, slopes = _run(network, arrays)
    except Exception as error:
        return Failure("eager", f"{type(error).__name__}: {error}")
    narrow = any(getattr(v, "dtype", None) in (onp.float32, onp.float16) for v in values)
    for y, z in zip(eager, expected, strict=True):
        if y.shape != z.shape or (z.dtype == bool and y.dtype != bool):
            return Failure("shape", f"{y.dtype}{y.shape}, NumPy {z.dtype}{z.shape}")
        if not _agree(y, z, 1e-3 if narrow else 1e-9):
            return Failure("values", f"{y}, NumPy {z}")
    network.hybridize()
    for _ in range(2):
        try:
            compiled, compiled_slopes = _run(network, arrays)
        except Exception as error:
            return Failure("compiled", f"{type(error).__name__}: {error}")
        for y, z in zip((*compiled, *compiled_slopes), (*eager, *slopes), strict=True):
            if y.dtype != z.dtype or y.shape != z.shape or not _agree(y, z, 1e-3 if narrow else 1e-9):
                return Failure("compiled", f"{y.dtype} {y}, eagerly {z.dtype} {z}")
    return None


def _run(network: _Network, arrays: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """The results, and the gradients of their sum if it has some."""
    inputs = [np.array(a) for a in arrays]
    variables = [x for x in inputs if onp.dtype(x.dtype) == FLOAT64]
    for x in variables:
        x.attach_grad()
    with autograd.record():
        results = as_list(network(*inputs))
        total = np.zeros((), dtype="float64")
        for y in results:
            total = total + y.sum() if onp.dtype(y.dtype).kind == "f" else total
    try:
        total.backward()
    except MXNetError:  # nothing depends on a variable, or an operator has no gradient
        return [y.asnumpy() for y in results], [onp.zeros(x.shape) for x in variables]
    return [y.asnumpy() for y in results], [x.grad.asnumpy() for x in variables]


def _agree(y: Array, z: Array, error: float) -> bool:
    """Whether numbers are equal up to an error relative to the largest."""
    with onp.errstate(all="ignore"):
        size = onp.abs(z[onp.isfinite(z)].astype(float)).max(initial=1.0)
        return bool(onp.allclose(y.astype(float), z.astype(float), error, error * size, equal_nan=True))


# --- smaller ones ------------------------------------------------------------------------------------------------


def shrink_numpy(given: NumpyProgram, fails: Callable[[NumpyProgram], bool], seconds: float) -> NumpyProgram:
    """The smallest program found within so many seconds that ``fails``."""
    until = time.monotonic() + seconds
    while True:
        for smaller in _smaller(given):
            if time.monotonic() > until:
                return given
            if fails(smaller):
                given = smaller
                break
        else:
            return given


def _smaller(given: NumpyProgram) -> Iterator[NumpyProgram]:
    """Programs with fewer steps, or fewer results."""
    inputs = len(given.inputs)
    for count in range(len(given.steps)):
        yield replace(given, steps=given.steps[:count], outputs=(inputs + count - 1,))
    for i in given.outputs if len(given.outputs) > 1 else ():
        yield replace(given, outputs=(i,))
    for i in range(len(given.steps) - 1):  # a step that another value stands for
        for j in range(inputs + i):
            steps = (*given.steps[:i], f"v{j}", *given.steps[i + 1 :])
            if given.steps[i] != f"v{j}":
                yield replace(given, steps=steps)


def numpy_source(program: NumpyProgram, target: str, kind: str) -> str:
    """The program as Python source that shows what is wrong."""
    lines = [f"# HYBRIDC_TARGET={target} python this_file.py    ({kind})"]
    lines += ["from hybridc.tools.fuzz.numpy_program import NumpyProgram, check_numpy", ""]
    steps = [f"v{i} = {step}" for i, step in enumerate(program.steps, len(program.inputs))]
    lines += [f"# {line}" for line in steps]
    lines += [f"print(check_numpy(NumpyProgram.from_json({program.to_json()!r})))"]
    return "\n".join(lines)
