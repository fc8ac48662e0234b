"""Helpers of the checks of an operator: its samples as cases, their inputs, runs, gradients, comparisons."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc import autograd, random
from hybridc.array.dispatch import invoke
from hybridc.array.ndarray import NDArray
from hybridc.dialects.operator import Bad, Elementwise, Operator, Sample
from hybridc.dtypes import HALVES, TYPES, computed, is_float
from hybridc.errors import DTypeError, OperatorCheckError
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass

Array = npt.NDArray[Any]
Found = tuple[str, Any]  # a case's label and the case
Cases = Callable[[type[Operator]], Iterable[Found]]

# Of half precision, what some four roundings and two may be; of others what formulas need.
RTOL = {**{TYPES[d].name: 4.1 * TYPES[d].epsilon for d in HALVES}, "float32": 1e-5, "float64": 1e-10}
ATOL = {**{TYPES[d].name: 2.05 * TYPES[d].epsilon for d in HALVES}, "float32": 2e-6, "float64": 1e-11}

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5])


@dataclass(frozen=True)
class Case:
    """A sample of an operator in one dtype, in prediction or in training."""

    cls: type[Operator]
    call: str  # "softmax-0": the operator and the sample's number
    sample: Sample
    dtype: str
    training: bool = False

    def operator(self) -> Operator:
        """The operator with the sample's attributes; where it knows the difference, for this case's mode."""
        op = self.cls.bind(**self.sample.attrs)
        if op.TRAIN_MODE and op.attrs.get("train", True) is None:
            op = op.bind(**{**op.attrs, "train": self.training})
        return op

    def unbound(self) -> Operator:
        """The operator as a user calls it: whether it trains is found out at the call."""
        return self.cls.bind(**self.sample.attrs)

    def arrays(self, dtype: str | None = None) -> list[Array]:
        """The inputs: floating-point arrays in the case's dtype, others as they are, shapes filled at random."""
        rng = np.random.default_rng(zlib.crc32(self.call.encode()))
        low, high = self.sample.low, self.sample.high
        return [_fill(rng, x, low, high, dtype or self.dtype) for x in self.sample.inputs]

    def reference(self, arrays: Sequence[Array]) -> list[Array]:
        """The results of the sample's independent reference, in float64."""
        given = zip(arrays, self.sample.inputs, strict=True)
        wide = [x.astype(np.float64) if is_float(x.dtype) or _is_shape(g) else x for x, g in given]
        with np.errstate(all="ignore"):
            result: Any = self.sample.reference(*wide)
        return [np.asarray(y) for y in as_list(result)]

    def differentiable(self, index: int) -> bool:
        """Whether to take an input's gradient: not that of an array of whole numbers, such as indices."""
        given = self.sample.inputs[index]
        return _is_shape(given) or (given.dtype.kind == "f" and bool((given % 1).any()))

    def describe(self) -> str:
        """The inputs and attributes in words."""
        shapes = [tuple(x) if _is_shape(x) else x.shape for x in self.sample.inputs]
        inputs = ", ".join(f"{self.dtype}{list(s)}" for s in shapes) or "none"
        attrs = ", ".join(f"{k}={v!r}" for k, v in self.sample.attrs.items())
        return f"inputs {inputs}{'; ' * bool(attrs)}{attrs}{'; training' * self.training}"


def _is_shape(given: Any) -> bool:
    """Whether an input of a sample is a shape."""
    return not isinstance(given, np.ndarray)


def _fill(rng: np.random.Generator, given: Any, low: float, high: float, dtype: str) -> Array:
    if _is_shape(given):
        sizes: tuple[int, ...] = tuple(given)
        return rng.uniform(low, high, sizes).astype(dtype)
    return given.astype(dtype) if given.dtype.kind == "f" else given


# --- which cases there are ------------------------------------------------------------------------------------


def short(cls: type[Operator]) -> str:
    """An operator's name in labels: ours without the dialect."""
    return cls.NAME.removeprefix("hybrid.")


def each_class(cls: type[Operator]) -> Iterable[Found]:
    """The class itself."""
    return [(cls.NAME, cls)]


def each_sample(cls: type[Operator]) -> Iterable[Found]:
    """Every sample, in its first dtype."""
    for i, sample in enumerate(cls.samples()):
        case = Case(cls, f"{short(cls)}-{i}", sample, sample.dtypes[0])
        yield case.call, case


def each_dtype(cls: type[Operator]) -> Iterable[Found]:
    """Every sample in each of its dtypes."""
    for _, case in each_sample(cls):
        for dtype in case.sample.dtypes:
            yield f"{case.call}-{dtype}", Case(cls, case.call, case.sample, dtype)


def each_bad(cls: type[Operator]) -> Iterable[tuple[str, tuple[type[Operator], Bad]]]:
    """Every bad sample."""
    return [(f"{short(cls)}-{i}", (cls, bad)) for i, bad in enumerate(cls.bad_samples())]


def each_elementwise(cls: type[Operator]) -> Iterable[Found]:
    """Every sample of an elementwise operator of floats."""
    return (
        [(call, case) for call, case in each_sample(cls) if takes(case, "float32")]
        if issubclass(cls, Elementwise)
        else ()
    )


def takes(case: Case, dtype: str) -> bool:
    """Whether the operator of a case is one of inputs of that dtype: there are operators of integers alone."""
    try:
        case.operator().infer_type([np.dtype(dtype)] * len(case.sample.inputs))
    except DTypeError:
        return False
    return True


def each_gradient(cls: type[Operator]) -> Iterable[Found]:
    """Every sample that has a gradient, in float64: differences need the digits."""
    for call, case in each_sample(cls):
        if case.sample.grad:
            yield call, Case(cls, call, case.sample, "float64")


def where(cases: Cases, keep: Callable[[Any], bool]) -> Cases:
    """The cases that ``keep`` accepts."""

    def kept(cls: type[Operator]) -> Iterable[Found]:
        return [(label, case) for label, case in cases(cls) if keep(case)]

    return kept


# --- running --------------------------------------------------------------------------------------------------


def keyed(op: Operator, arrays: Sequence[Array]) -> list[Array]:
    """The inputs of an operator's ``eager``: with a random key if it uses one."""
    return [*arrays, np.array([7, 3], dtype=np.uint64)] if op.DRAWS else list(arrays)


def eager(op: Operator, arrays: Sequence[Array]) -> list[Array]:
    """All results of an operator run on NumPy arrays, hidden ones included."""
    with np.errstate(all="ignore"):
        result: Any = op.evaluate(*keyed(op, arrays))
    require(not isinstance(result, list), "eager returned a list; several results are returned as a tuple")
    return [np.asarray(y) for y in as_list(result)]


def run(op: Operator, inputs: Sequence[NDArray]) -> list[NDArray]:
    """The visible results of an operator on NDArrays; the same random numbers at every call."""
    with random.isolated(11), np.errstate(all="ignore"):
        return as_list(invoke(op, list(inputs)))


def ndarrays(arrays: Sequence[Array]) -> list[NDArray]:
    """NDArrays of copies, so that an operator that updates inputs starts from the same values each time."""
    return [NDArray(x.copy()) for x in arrays]


def weights_of(outputs: Sequence[NDArray]) -> list[Array]:
    """Fixed weights of the results in the sum that is differentiated."""
    rng = np.random.default_rng(5)
    return [rng.uniform(0.5, 1.5, y.shape).astype(y.dtype) for y in outputs]


def heads_of(outputs: Sequence[NDArray], weights: Sequence[Array]) -> list[tuple[NDArray, NDArray]]:
    """The results that depend on an input whose gradient is wanted, each with its weight."""
    pairs = zip(outputs, weights, strict=False)
    return [(y, NDArray(w)) for y, w in pairs if y._entry is not None]


def gradients(
    op: Operator, arrays: Sequence[Array], weights: Sequence[Array], training: bool = False
) -> list[Array | None]:
    """Gradients of the weighted sum of all visible results; None for inputs that are not floating-point."""
    inputs = ndarrays(arrays)
    wanted = [x for x in inputs if x.dtype is np.float64 or x.dtype is np.float32]
    for x in wanted:
        x.attach_grad()
    with np.errstate(all="ignore"):
        with autograd.record(train_mode=training):
            outputs = run(op, inputs)
        heads = heads_of(outputs, weights)
        if heads:
            autograd.backward([y for y, _ in heads], [w for _, w in heads], train_mode=training)
    return [x.grad.asnumpy() if x.grad is not None else None for x in inputs]  # pyright: ignore[reportUnnecessaryComparison]


# --- comparing ------------------------------------------------------------------------------------------------


def fail(text: str) -> OperatorCheckError:
    """The error of a check that found something wrong."""
    return OperatorCheckError(text)


def require(holds: bool, text: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise fail(text)


def equal(got: Any, want: Any, what: str) -> None:
    """Raise unless both are equal."""
    if got != want:
        raise fail(f"{what}: got {got}, expected {want}")


def close(got: Array, want: Array, dtype: str, factor: float = 1.0, what: str = "result") -> None:
    """Equal shapes, and equal values within the tolerance of the dtype (exactly, for integers)."""
    equal(got.shape, want.shape, f"shape of {what}")
    if got.dtype.hasobject:  # the state of an operator: its own affair
        return
    if not is_float(got.dtype):
        within(got, want.astype(got.dtype), 0.0, 0.0, what)
        return
    dtype = max(dtype, got.dtype.name, key=lambda d: RTOL.get(d, 0.0))
    got, want = (x.astype(computed(x.dtype)) for x in (got, want))
    scale = np.abs(want[np.isfinite(want)]).max(initial=1.0) if want.dtype.kind == "f" else 1.0
    within(got, want, RTOL[dtype] * factor, ATOL[dtype] * factor * float(scale), what)


def within(got: Array, want: Array, rtol: float, atol: float, what: str) -> None:
    """Raise unless ``|got - want| <= atol + rtol * |want|`` everywhere; nan equals nan."""
    with np.errstate(all="ignore"):
        exact = got.dtype.kind != "f"
        wrong = got != want if exact else ~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f" at {list(at)}" if at else ""
    raise fail(
        f"{what}: {int(wrong.sum())} of {wrong.size} elements differ; the first{place}: "
        f"got {got[at].item()!r}, expected {want[at].item()!r}"
    )


def all_close(got: Sequence[Any], want: Sequence[Any], dtype: str, factor: float = 1.0, what: str = "result") -> None:
    """As :func:`close`, for all results."""
    equal(len(got), len(want), f"number of {what}s")
    for i, (y, w) in enumerate(zip(got, want, strict=True)):
        arrays = [a.asnumpy() if isinstance(a, NDArray) else a for a in (y, w)]
        close(arrays[0], arrays[1], dtype, factor, f"{what} {i}" if len(got) > 1 else what)


def input_name(op: Operator, index: int) -> str:
    """An input in words."""
    names = op.input_names()
    return repr(names[index]) if not op.VARIADIC and index < len(names) else f"number {index}"
