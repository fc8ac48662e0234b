"""Checks of a program: eager, compiled and float64 runs agree, and equal calls have equal results.

How far two results may differ is found, not guessed: the program runs in float64, exactly and with every operand of
what rounds disturbed by a few units in the last place of its dtype. What this changes, rounding may change; where it
changes a result by leaps, as at the jump of a step function, nothing is compared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from ml_dtypes import finfo

from hybridc import autograd
from hybridc import random as random_state
from hybridc.array.ndarray import NDArray
from hybridc.dialects.operator import Elementwise, Movement, Opaque, Operator, Reduction
from hybridc.dialects.scalar import record
from hybridc.dialects.scalar.table import STEPS
from hybridc.dtypes import computed, is_float
from hybridc.errors import MXNetError, UnsupportedError
from hybridc.ground.machine import NOMINAL, using
from hybridc.ground.records import dataclass
from hybridc.nd.creation import array
from hybridc.tools.fuzz.random_program import Array, ProgramNet, RandomProgram, evaluate
from hybridc.transforms.schedules.arrays import schedule_arrays
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMachine

T = TypeVar("T")

RUNS = 6  # disturbed runs, in pairs of opposite signs
UNITS = 4.0  # how far operands are disturbed, in units of the dtype's epsilon
SPREAD = 8.0  # times what the disturbed runs differ by may a result differ
# Words of Python that mean nothing to who called an operator.
_INTERNAL = (
    "zip() arg",
    "tuple index",
    "list index",
    "not subscriptable",
    "unhashable",
    "'NoneType'",
    "unsupported operand",
)
FORWARD = "in the forward"
BEFORE = 2.0  # what gradients hold before a backward


@dataclass(frozen=True)
class Failure:
    """A failed check: its kind, and the particulars."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class CheckFailed(Exception):
    """What must hold does not."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.failure = Failure(kind, text)


class Invalid(Exception):
    """The program is none: eager calls refuse it."""


@dataclass
class Run:
    """The results of one call: copies of outputs, gradients and inputs after it, and the output and input arrays."""

    outputs: list[Array]
    grads: list[Array | None]
    inputs: list[Array]
    held: list[NDArray]  # the outputs
    placed: list[NDArray]  # the inputs


def check(program: RandomProgram) -> Failure | None:
    """The failure of the program on this process's target, or None; raises Invalid where it is no program."""
    try:
        with small_tiles(program.elements), np.errstate(all="ignore"):
            _check(program)
    except CheckFailed as failed:
        return failed.failure
    return None


def _check(program: RandomProgram) -> None:
    plain = ProgramNet(program)
    eager = _eagerly(plain, program, False)
    again = _eagerly(plain, program, False)
    _same_bits(again, eager, "eager repeated", "a second eager call")
    tolerance = _tolerance(program, eager)
    net = ProgramNet(program)
    net.hybridize()
    first = compiled(net, program, False, "the first call")
    _compare(first, eager, tolerance, "values")
    _compare_inputs(first, eager, tolerance)
    second = compiled(net, program, False, "the second call")
    _same_bits(second, first, "repeated", "the second call")
    recorded: Run | None = None
    if program.heads:
        recorded = _check_gradients(plain, net, program)
    for size in program.sizes:
        _other_sizes(plain, net, program, size)
        what = f"a call after one with sizes {size}"
        _same_bits(compiled(net, program, False, what), first, "repeated", what)
    others = replace(program, inputs=tuple(replace(x, seed=x.seed + 1) for x in program.inputs))
    if "parameters" in program.tries:
        _other_values(plain, net, others)
        what = "a call after one with other parameters"
        _same_bits(compiled(net, program, False, what), first, "repeated", what)
    if "writes" in program.tries:
        _writes(plain, program, eager, "eager writes")
        _writes(net, program, first, "writes")
    if "threads" in program.tries:
        _threads(net, program, first)
    if recorded is not None:
        what = "a later forward and backward"
        _same_bits(compiled(net, program, True, what), recorded, "repeated gradients", what)
    for run, name in ((first, "first"), (second, "second"), *([(recorded, "recorded")] if recorded else [])):
        for i, (held, value) in enumerate(zip(run.held, run.outputs, strict=True)):
            if not equal_bits(held.asnumpy(), value):
                raise CheckFailed("held", f"output {i} of the {name} call changed when the network was called later")


# --- calls ----------------------------------------------------------------------------------------------------


def call(net: ProgramNet, program: RandomProgram, backward: bool, values: Sequence[Array] | None = None) -> Run:
    """Call a network with the program's inputs on new arrays; the same random numbers at every call."""
    arrays = program.arrays() if values is None else values
    placed: list[NDArray] = []
    arguments: list[NDArray] = []
    for i, (each, data) in enumerate(zip(program.inputs, arrays, strict=True)):
        if each.parameter:
            parameter = getattr(net, f"v{i}")
            parameter.grad_req = each.req
            parameter.set_data(array(data, dtype=data.dtype))
            placed.append(parameter.data())
        else:
            placed.append(each.placed(data) if each.same_as is None else placed[each.same_as])
            arguments.append(placed[-1])
            if backward and each.same_as is None and each.req != "null":
                placed[-1].attach_grad(each.req)
        if backward and each.same_as is None and each.req != "null":
            _gradient(placed[-1])[...] = BEFORE  # which "add" adds to, and "write" replaces
    random_state.seed(program.seed)
    if not backward:
        outputs: list[NDArray] = net(*arguments)
    else:
        with autograd.record(train_mode=program.training):
            try:
                outputs = net(*arguments)
            except MXNetError as error:
                error.add_note(FORWARD)
                raise
        _backward(program, outputs)
    wanted = [backward and x.req != "null" and x.same_as is None for x in program.inputs]
    return Run(
        [y.asnumpy().copy() for y in outputs],
        [_gradient(x).asnumpy().copy() if w else None for x, w in zip(placed, wanted, strict=True)],
        [x.asnumpy().copy() for x in placed],
        outputs,
        placed,
    )


def _gradient(x: NDArray) -> NDArray:
    assert x.grad is not None
    return x.grad


def _backward(program: RandomProgram, outputs: Sequence[NDArray], noise: _Noise | None = None) -> None:
    """Gradients of some outputs, each with random weights."""
    rng = np.random.default_rng(program.seed)
    weights = [rng.normal(size=y.shape) for y in outputs]
    heads = [i for i in program.heads if outputs[i]._entry is not None]
    if not heads:
        return
    given: list[NDArray] = []
    for i in heads:
        # What the dtype of the program rounds, the float64 run rounds, too.
        data = weights[i].astype(np.float32) if noise is None else weights[i].astype(np.float32).astype(np.float64)
        given.append(array(data, dtype=outputs[i].dtype))
    if noise is None:
        autograd.backward([outputs[i] for i in heads], given, train_mode=program.training)
        return
    given = [noise.disturbed(x, noise.unit) for x in given]
    with noise.in_rules():
        autograd.backward([outputs[i] for i in heads], given, train_mode=program.training)


def _eagerly(net: ProgramNet, program: RandomProgram, backward: bool, values: Sequence[Array] | None = None) -> Run:
    """An eager call; one that the library refuses makes the program invalid, any other error is a failure."""
    try:
        return call(net, program, backward, values)
    except Exception as error:
        where = "eager backward" if backward else "eager"
        if is_raw(error):
            raise CheckFailed(f"raw {type(error).__name__}", f"{where}: {type(error).__name__}: {error}") from error
        if (
            backward and FORWARD not in getattr(error, "__notes__", ()) and not isinstance(error, UnsupportedError)
        ):  # the same forward was accepted
            raise CheckFailed("refused backward", f"{where}: {type(error).__name__}: {error}") from error
        raise Invalid(str(error)) from error


def is_raw(error: Exception) -> bool:
    """Whether an error is none of the library's, or only repeats what Python said inside the library."""
    return not isinstance(error, MXNetError) or any(words in str(error) for words in _INTERNAL)


def compiled(
    net: ProgramNet, program: RandomProgram, backward: bool, what: str, values: Sequence[Array] | None = None
) -> Run:
    """A call of the hybridized network, which must not raise where the eager one does not."""
    try:
        return call(net, program, backward, values)
    except Exception as error:
        kind = "raw" if is_raw(error) else "refused"
        raise CheckFailed(f"{kind} {type(error).__name__}", f"{what}: {type(error).__name__}: {error}") from error


# --- what is tried --------------------------------------------------------------------------------------------


def _check_gradients(plain: ProgramNet, net: ProgramNet, program: RandomProgram) -> Run:
    eager = _eagerly(plain, program, True)
    tolerance = _tolerance(program, eager, backward=True)
    run = compiled(net, program, True, "forward and backward")
    _compare(run, eager, tolerance, "recorded values")
    _compare_gradients(run, eager, tolerance, "gradients")
    _compare_inputs(run, eager, tolerance)
    again = compiled(net, program, True, "forward and backward")
    _same_bits(again, run, "repeated gradients", "the second forward and backward")
    return run


def _other_sizes(plain: ProgramNet, net: ProgramNet, program: RandomProgram, size: tuple[int, int]) -> None:
    changed = program.resized({size[0]: size[1]})
    try:
        eager = _eagerly(plain, changed, False)
    except Invalid:
        try:
            call(net, changed, False)
        except Exception as error:
            if not is_raw(error):
                return
            name = type(error).__name__
            raise CheckFailed(f"raw {name}", f"sizes {size}: eager refuses, compiled raises {name}: {error}") from error
        return  # a compiled graph may take what eager calls refuse: it needs no unused value
    tolerance = _tolerance(changed, eager)
    _compare(compiled(net, changed, False, f"sizes {size}"), eager, tolerance, "values")


def _other_values(plain: ProgramNet, net: ProgramNet, others: RandomProgram) -> None:
    try:
        eager = _eagerly(plain, others, False)
    except Invalid:
        return
    _compare(compiled(net, others, False, "other values"), eager, _tolerance(others, eager), "values")


def _writes(net: ProgramNet, program: RandomProgram, before: Run, kind: str) -> None:
    """Writing to a result changes no input and no later call; writing to an input changes no result."""
    run = compiled(net, program, False, "a call before writes")
    for y in run.held:
        if not any(y is x for x in run.placed):  # an eager call returns an input as it is
            y[:] = 1
    for i, (x, value) in enumerate(zip(run.placed, run.inputs, strict=True)):
        if not equal_bits(x.asnumpy(), value):
            raise CheckFailed(kind, f"input {i} changed when a result was written to")
    run = compiled(net, program, False, "a call after writes")
    _same_bits(run, before, kind, "a call after writes to results")
    for x in run.placed:
        if not any(x is y for y in run.held):
            x[:] = 1
    for i, (y, value) in enumerate(zip(run.held, run.outputs, strict=True)):
        if not equal_bits(y.asnumpy(), value):
            raise CheckFailed(kind, f"output {i} changed when an input was written to")


def _threads(net: ProgramNet, program: RandomProgram, alone: Run) -> None:
    """Three threads call the network at once, with the same values."""
    if any(x.parameter for x in program.inputs) or draws(program) or any(s.bound().mutated for s in program.steps):
        return  # the arrays or the random numbers are shared by the threads
    for run in in_threads(lambda: call(net, program, False)):
        _same_bits(run, alone, "threads", "a call beside other threads")


def in_threads(call: Callable[[], T]) -> list[T]:
    """What three threads get that make three calls each, at once; an error in one is a failure."""
    found: list[list[T] | Exception] = [[]] * 3

    def work(i: int) -> None:
        try:
            with np.errstate(all="ignore"):
                found[i] = [call() for _ in range(3)]
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results: list[T] = []
    for each in found:
        if isinstance(each, Exception):
            raise CheckFailed("threads", f"{type(each).__name__}: {each}")
        results += each
    return results


def draws(program: RandomProgram) -> bool:
    """Whether the program uses random numbers."""
    return any(step.bound().DRAWS for step in program.steps)


@contextmanager
def small_tiles(elements: int | None) -> Generator[None]:
    """Kernels tiled, and shared by threads, as larger arrays are."""
    if elements is None:
        yield
        return
    wanted: list[tuple[Any, str, Any]] = [
        (schedule_arrays, "MACHINE", ArrayMachine(elements, elements, parallel_elements=4 * elements)),
    ]
    before = [getattr(module, name) for module, name, _ in wanted]
    for module, name, value in wanted:
        setattr(module, name, value)
    try:
        with using(NOMINAL.cut_at(elements * NOMINAL.costs.operation)):
            yield
    finally:
        for (module, name, _), value in zip(wanted, before, strict=True):
            setattr(module, name, value)


# --- how far results may differ -------------------------------------------------------------------------------


@dataclass
class Tolerance:
    """For outputs, gradients and updated inputs: what they are in float64 (or None), and how far others may differ."""

    outputs: list[tuple[Array | None, Array]]
    grads: list[tuple[Array | None, Array | None]]
    inputs: list[tuple[Array | None, Array]]


class _Noise:
    """Disturbs what rounds: ``before`` an operator its operands, ``after`` it its results."""

    def __init__(self, seed: int, sign: float, units: Sequence[float], inputs: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.sign = sign
        self.units = units  # of each value of the program
        self.unit = max([*units, 0.0])
        self.next = inputs  # the index of the next result
        self.size = 1.0  # of the operands of this step

    def disturbed(self, x: NDArray, unit: float) -> NDArray:
        """An array times 1 and a little."""
        if not is_float(np.dtype(x.dtype)) or not unit or not self.sign:
            return x
        signs = self.rng.integers(0, 2, x.shape) * 2.0 - 1
        factor = 1 + self.sign * UNITS * unit * signs * self.rng.uniform(0.5, 1, x.shape)
        return x * array(factor.astype(np.float64), dtype=x.dtype)

    def unit_of(self, numbers: Sequence[int]) -> float:
        """The largest epsilon of these values."""
        return max([0.0, *(self.units[i] for i in numbers)])

    def rounding(self, x: NDArray, unit: float) -> NDArray:
        """The same array, with a gradient that is disturbed: each use of a value adds to it what was rounded."""
        if not is_float(np.dtype(x.dtype)) or not unit or not self.sign or not autograd.is_recording():
            return x
        made: NDArray = _Rounding(self, unit)(x)
        return made

    @contextmanager
    def in_rules(self) -> Generator[None]:
        """Rules of gradients are given results that were rounded: what cancels in them, such as 1 - y * y, shows."""
        exact = autograd.vjp

        def vjp(op: Operator, F: Any, ograds: Any, inputs: Any, outputs: Sequence[NDArray], needed: Any) -> Any:
            rounded = not (moves_only(op) or isinstance(op, Opaque) or rounds_once(op))
            made = [self.disturbed(y, self.unit) for y in outputs] if rounded else outputs
            return exact(op, F, ograds, inputs, made, needed)

        setattr(autograd, "vjp", vjp)  # noqa: B010 - the tape looks it up there
        try:
            yield
        finally:
            setattr(autograd, "vjp", exact)  # noqa: B010

    def before(self, op: Operator, numbers: Sequence[int], operands: list[NDArray]) -> list[NDArray]:
        """The operands, disturbed if the operator rounds on its way to the results."""
        unit = self.unit_of([*numbers, self.next])
        self.size = max([1.0, *(_largest(x) for x in operands)])
        mutated = {*op.mutated, *op.auxiliary()}
        exact = moves_only(op) or isinstance(op, Opaque) or rounds_once(op)
        change = self.rounding if exact else self.disturbed
        return [x if i in mutated else change(x, unit) for i, x in enumerate(operands)]

    def after(self, op: Operator, numbers: Sequence[int], results: list[NDArray]) -> list[NDArray]:
        """The results, disturbed if they were rounded."""
        own = range(self.next, self.next + len(results))
        self.next += len(results)
        if moves_only(op):
            return results
        exact = isinstance(op, Opaque | Reduction) or rounds_once(op)
        units = [self.units[i] if exact else max(self.units[i], self.unit_of(numbers)) for i in own]
        return [
            y if exact and _is_representable(y, unit) else self.changed(op, y, unit)
            for y, unit in zip(results, units, strict=True)
        ]

    def changed(self, op: Operator, y: NDArray, unit: float) -> NDArray:
        """A result disturbed; one that was rounded to an integer may have been rounded to the next."""
        if is_float(np.dtype(y.dtype)):
            lost = np.abs(y._data.astype(np.float64)) < UNITS * unit * self.size
            if self.sign >= 0 or not lost.any():
                return self.disturbed(y, unit)
            return self.disturbed(y, unit) * array(~lost, dtype=y.dtype)  # cancellation may leave nothing
        return y + int(self.sign) if isinstance(op, Elementwise) else y


def _largest(x: NDArray) -> float:
    """The largest finite number."""
    if not is_float(np.dtype(x.dtype)):
        return 0.0
    data = np.abs(x._data.astype(np.float64))
    return float(np.where(np.isfinite(data), data, 0.0).max(initial=0.0))


class _Rounding(autograd.Function):
    """The identity, whose gradient is disturbed."""

    def __init__(self, noise: _Noise, unit: float) -> None:
        super().__init__()
        self.noise = noise
        self.unit = unit

    def forward(self, *inputs: Any) -> Any:
        """The input."""
        return inputs[0].copy()

    def backward(self, *output_grads: Any) -> Any:
        """The gradient, disturbed."""
        return self.noise.disturbed(output_grads[0], self.unit)


def moves_only(op: Operator) -> bool:
    """Whether an operator gives elements of its inputs as they are."""
    return isinstance(op, Movement) or (isinstance(op, Reduction) and op.COMBINE in ("max", "min"))


def rounds_once(op: Operator) -> bool:
    """Whether an elementwise operator consists of steps that IEEE arithmetic rounds correctly."""
    if not isinstance(op, Elementwise):
        return False
    known = op.__dict__.get("_fuzz_rounds_once")
    if known is None:
        _, steps, _ = record(op, len(op.input_names()))
        known = vars(op)["_fuzz_rounds_once"] = all(STEPS[str(s.step)].exact for s in steps) and len(steps) <= 1
    return known


def _is_representable(y: NDArray, unit: float) -> bool:
    """Whether a dtype of this epsilon has all the numbers."""
    data = y._data.astype(np.float64)
    fraction, _ = np.frexp(data[np.isfinite(data)])
    scaled = fraction * 2 / unit if unit else fraction
    return bool((scaled == np.rint(scaled)).all())


def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number of a dtype; 0 for integers."""
    return float(_finfo(dtype).eps) if is_float(np.dtype(dtype)) else 0.0


def smallest(dtype: Any) -> float:
    """The smallest positive number of a floating-point dtype."""
    return float(_finfo(dtype).smallest_subnormal)


def _finfo(dtype: Any) -> Any:
    made: Any = finfo
    return made(dtype)


def _limits(dtype: Any) -> tuple[float, float]:
    """The range in which neither results nor what is computed on the way overflows, or loses digits."""
    dtype = np.dtype(dtype)
    info = _finfo(dtype)
    own = float(info.max) / 4, float(info.smallest_normal) * 4
    if dtype.itemsize < 4:
        return own
    return float(np.sqrt(own[0])), float(np.sqrt(own[1]))


def _tolerance(program: RandomProgram, eager: Run, backward: bool = False) -> Tolerance:
    dtypes = _dtypes(program, backward)
    units = [epsilon(d) for d in dtypes]
    tame = _is_tame(program, dtypes, backward)
    wide = tame and not draws(program)
    try:
        runs = [_disturbed(program, units, wide, backward, n) for n in range(-1, RUNS)]
    except MXNetError as error:  # an index or a parameter that rounding makes a wrong one
        raise Invalid(str(error)) from error
    base, *others = runs
    worst = max(units)

    def spread(pick: Callable[[Run], Array | None], actual: Array | None) -> tuple[Array | None, Array]:
        reference = pick(base)
        if reference is None or actual is None:
            return None, np.zeros(())
        wanted = reference.astype(np.float64)
        unit = max(epsilon(actual.dtype), worst if backward else 0.0)
        found = np.zeros(wanted.shape)
        for run in others:
            data = pick(run)
            assert data is not None
            value = data.astype(np.float64)
            difference = np.abs(value - wanted)
            jump = (np.isfinite(value) != np.isfinite(wanted)) | (~np.isfinite(value) & ~_alike(value, wanted))
            found = np.fmax(found, np.where(jump, np.inf, np.nan_to_num(difference, nan=0.0)))
        if not is_float(actual.dtype):
            return (wanted if wide else None), np.where(found > 0, np.inf, 0.0)
        size = np.abs(np.where(np.isfinite(wanted), wanted, 0.0))
        tiny = _limits(actual.dtype)[1] ** 2 if actual.dtype.itemsize >= 4 else _limits(actual.dtype)[1]
        allowed = SPREAD * found + 32 * unit * size + 2 * unit * size.max(initial=0.0) + tiny
        if not tame:  # whether a product overflows on the way depends on its order
            allowed = np.where(np.isfinite(wanted) & (size < _limits(actual.dtype)[0]), allowed, np.inf)
        return (wanted if wide else None), allowed

    return Tolerance(
        [spread(lambda r, i=i: r.outputs[i], y) for i, y in enumerate(eager.outputs)],
        [spread(lambda r, i=i: r.grads[i], y) for i, y in enumerate(eager.grads)],
        [spread(lambda r, i=i: r.inputs[i], y) for i, y in enumerate(eager.inputs)],
    )


def _alike(a: Array, b: Array) -> Array:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def values_of(program: RandomProgram, backward: bool = False, wide: bool = False) -> list[NDArray]:
    """All values of one eager run."""
    arrays = program.arrays()
    given = [array(x, dtype="float64" if wide and is_float(x.dtype) else x.dtype) for x in arrays]
    random_state.seed(program.seed)
    with autograd.train_mode() if backward and program.training else autograd.predict_mode():
        return evaluate(program, given, wide)


def _dtypes(program: RandomProgram, backward: bool) -> list[Any]:
    return [np.dtype(x.dtype) for x in values_of(program, backward, False)]


def _is_tame(program: RandomProgram, dtypes: Sequence[Any], backward: bool) -> bool:
    """Whether nothing in the program is so large or small that only float64 has it."""
    try:
        values = values_of(program, backward, True)
    except MXNetError:
        return False
    if len(values) != len(dtypes):
        return False
    for x, dtype in zip(values, dtypes, strict=True):
        if not is_float(dtype):
            continue
        most, least = _limits(dtype)
        if backward and dtype.itemsize < 4:  # gradients square
            most, least = np.sqrt(most), np.sqrt(least)
        data = np.abs(x._data.astype(np.float64))
        data = data[np.isfinite(data) & (data != 0)]
        if data.size and (data.max() > most or data.min() < least):
            return False
    return True


def _disturbed(program: RandomProgram, units: Sequence[float], wide: bool, backward: bool, number: int) -> Run:
    """A run in float64 (or the program's own dtypes); number -1: exactly; others in pairs of opposite signs."""
    sign = 0.0 if number < 0 else 1.0 - 2 * (number % 2)
    noise = _Noise(number // 2 + 10, sign, units, len(program.inputs))
    arrays = program.arrays()
    placed: list[NDArray] = []
    for each, data in zip(program.inputs, arrays, strict=True):
        dtype = "float64" if wide and is_float(data.dtype) else data.dtype
        placed.append(array(data, dtype=dtype) if each.same_as is None else placed[each.same_as])
        if backward and each.req != "null" and each.same_as is None:
            placed[-1].attach_grad(each.req)
            _gradient(placed[-1])[...] = BEFORE
    random_state.seed(program.seed)
    if not backward:
        known = evaluate(program, placed, wide, noise)
        outputs = [known[i] for i in program.outputs]
    else:
        with autograd.record(train_mode=program.training):
            known = evaluate(program, placed, wide, noise)
            outputs = [known[i] for i in program.outputs]
        _backward(program, outputs, noise)
    wanted = [backward and x.req != "null" and x.same_as is None for x in program.inputs]
    return Run(
        [y.asnumpy() for y in outputs],
        [_gradient(x).asnumpy() if w else None for x, w in zip(placed, wanted, strict=True)],
        [x.asnumpy() for x in placed],
        outputs,
        placed,
    )


# --- comparing ------------------------------------------------------------------------------------------------


def _compare(run: Run, eager: Run, tolerance: Tolerance, kind: str) -> None:
    """Outputs: compiled against eager, and eager against float64."""
    if len(run.outputs) != len(eager.outputs):
        raise CheckFailed(kind, f"{len(run.outputs)} outputs, eager {len(eager.outputs)}")
    for i, (got, want, (wide, allowed)) in enumerate(zip(run.outputs, eager.outputs, tolerance.outputs, strict=True)):
        _require(got, want, allowed, kind, f"output {i}", "eager")
        if wide is not None:
            _require(want, wide, allowed, f"{kind} of eager calls", f"output {i}", "float64")


def _compare_gradients(run: Run, eager: Run, tolerance: Tolerance, kind: str) -> None:
    for i, (got, want, (wide, allowed)) in enumerate(zip(run.grads, eager.grads, tolerance.grads, strict=True)):
        if got is None or want is None or allowed is None:
            continue
        if (want == BEFORE).all() and not got.any():
            continue  # no gradient reaches it: a compiled graph writes zeros, the eager tape nothing, as in MXNet
        _require(got, want, allowed, kind, f"gradient of input {i}", "eager")
        if wide is not None:
            _require(want, wide, allowed, f"{kind} of eager calls", f"gradient of input {i}", "float64")


def _compare_inputs(run: Run, eager: Run, tolerance: Tolerance) -> None:
    for i, (got, want, (_, allowed)) in enumerate(zip(run.inputs, eager.inputs, tolerance.inputs, strict=True)):
        _require(got, want, allowed, "inputs afterwards", f"input {i}", "eager")


def _require(got: Array, want: Array, allowed: Array, kind: str, what: str, against: str) -> None:
    if got.shape != want.shape or (against == "eager" and got.dtype != want.dtype):
        text = f"{what} is {got.dtype}{list(got.shape)}, {against} {want.dtype}{list(want.shape)}"
        raise CheckFailed(f"shape or dtype of {kind}", text)
    if not is_float(got.dtype) and not is_float(want.dtype):
        wrong = (got != want) & ~np.isinf(allowed)
    else:
        a, b = (x.astype(computed(x.dtype)).astype(np.float64) for x in (got, want))
        wrong = ~_alike(a, b) & ~(np.abs(a - b) <= allowed) & ~np.isinf(allowed)
    if wrong.any():
        at = tuple(int(n) for n in np.argwhere(wrong)[0])
        raise CheckFailed(
            kind,
            f"{what} at {list(at)}: got {got[at]!s}, {against} {want[at]!s}, allowed difference "
            f"{np.broadcast_to(allowed, got.shape)[at]:.3g}; {int(wrong.sum())} of {wrong.size} elements differ",
        )


def equal_bits(a: Array, b: Array) -> bool:
    """Whether arrays are equal, signs of zeros included; any NaN equals any other."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(_alike_bits(a, b).all())


def _alike_bits(a: Array, b: Array) -> Array:
    """Which elements are equal."""
    if not is_float(a.dtype):
        return np.asarray(a == b)
    a, b = (x.astype(np.float64) for x in (a, b))
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def _same_bits(run: Run, before: Run, kind: str, what: str) -> None:
    pairs = [
        *((f"output {i}", a, b) for i, (a, b) in enumerate(zip(run.outputs, before.outputs, strict=True))),
        *((f"gradient of input {i}", a, b) for i, (a, b) in enumerate(zip(run.grads, before.grads, strict=True))),
        *((f"input {i}", a, b) for i, (a, b) in enumerate(zip(run.inputs, before.inputs, strict=True))),
    ]
    for name, a, b in pairs:
        if a is not None and b is not None and not equal_bits(a, b):
            raise CheckFailed(kind, f"{name} of {what} is not what it was at first")
