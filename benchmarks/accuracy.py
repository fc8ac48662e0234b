"""How exact and how fast the native functions are: ``python benchmarks/accuracy.py [--every 257] [name...]``.

float32: every 257th of all 2**32 numbers (``--every 1``: each, some minutes for a function), against NumPy in float64.
float64: some million numbers of all sizes, against NumPy in long double. Errors are in units in the last place (ulp) of
the true value, also where that is subnormal. Times are nanoseconds for an element of an array that stays in the cache,
on one thread, beside NumPy's.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import special
from xdsl.context import Context
from xdsl.dialects import func, math, memref, scf
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from hybridc.lower.llvm.codegen.native_function import LoadedCode, NativeFunction, load_functions
from hybridc.tools.loop_form import loop_form

Array = np.ndarray[Any, Any]

# The function of math, NumPy's, and the numbers on which it is timed.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, float]]] = {
    "exp": (np.exp, (-10, 10)),
    "expm1": (np.expm1, (-10, 10)),
    "log": (np.log, (0.001, 100)),
    "log2": (np.log2, (0.001, 100)),
    "log10": (np.log10, (0.001, 100)),
    "log1p": (np.log1p, (-0.9, 100)),
    "sin": (np.sin, (-10, 10)),
    "cos": (np.cos, (-10, 10)),
    "tan": (np.tan, (-10, 10)),
    "asin": (np.arcsin, (-1, 1)),
    "acos": (np.arccos, (-1, 1)),
    "atan": (np.arctan, (-10, 10)),
    "sinh": (np.sinh, (-10, 10)),
    "cosh": (np.cosh, (-10, 10)),
    "tanh": (np.tanh, (-5, 5)),
    "asinh": (np.arcsinh, (-10, 10)),
    "acosh": (np.arccosh, (1, 10)),
    "atanh": (np.arctanh, (-1, 1)),
    "cbrt": (np.cbrt, (-10, 10)),
    "erf": (special.erf, (-3, 3)),
    "sigmoid": (special.expit, (-10, 10)),
    "powf": (np.power, (0.1, 10)),
    "atan2": (np.arctan2, (-10, 10)),
}
TYPES = {"f32": np.dtype("float32"), "f64": np.dtype("float64")}
BINARY = ("powf", "atan2")
COMPOSED = {  # of type t
    "sigmoid": """%unit = arith.constant 1.0 : t
      %n = arith.negf %a : t
      %e = math.exp %n : t
      %d = arith.addf %e, %unit : t
      %r = arith.divf %unit, %d : t""",
}


def context() -> Context:
    made = Context()
    for dialect in (Builtin, Arith, func.Func, math.Math, memref.MemRef, scf.Scf):
        made.load_dialect(dialect)
    return made


def source(name: str, kind: str) -> str:
    """A parallel region that computes a function of one or two arrays."""
    names = "ab" if name in BINARY else "a"
    body = COMPOSED.get(name, f"%r = math.{name} {', '.join('%' + x for x in names)} : t").replace(": t", f": {kind}")
    arrays = ", ".join(f"%{x}s: memref<?x{kind}>" for x in names)
    loads = "\n".join(f"%{x} = memref.load %{x}s[%i] : memref<?x{kind}>" for x in names)
    return f"""
builtin.module {{
  func.func @region({arrays}, %y: memref<?x{kind}>, %lo: index, %hi: index, %scratch: memref<?xi8>)
      attributes {{hybrid.region}} {{
    %one = arith.constant 1 : index
    scf.for %i = %lo to %hi step %one {{
      {loads}
      {body}
      memref.store %r, %y[%i] : memref<?x{kind}>
    }}
    func.return
  }}
}}"""


class Native:
    """A native function of arrays."""

    def __init__(self, name: str, kind: str) -> None:
        def build() -> Any:
            return Parser(context(), source(name, kind)).parse_module()

        self.code: LoadedCode = load_functions(
            [NativeFunction(f"accuracy {name} {kind} {time.time()}", loop_form(build))]
        )[0]
        shape = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, ctypes.c_void_p)
        self.call = shape(self.code.address)

    def __call__(self, *xs: Array, out: Array | None = None) -> Array:
        y = np.empty_like(xs[0]) if out is None else out
        buffers = (ctypes.c_void_p * (len(xs) + 1))(*[x.ctypes.data for x in xs], y.ctypes.data)
        self.call(buffers, None, 0, y.size, None)
        return y


def steps(y: Array, rounded: Array) -> Array:
    """How many numbers of the type lie between two, by their representations; nans are alike, zeros are not."""
    bits = np.dtype(f"uint{8 * y.dtype.itemsize}")
    a, b = y.view(bits), rounded.view(bits)
    return np.where(np.isnan(y) & np.isnan(rounded), 0, np.where(a > b, a - b, b - a))


def ulps(y: Array, truth: Array) -> Array:
    """The error of y in units in the last place of the truth, which has more digits than y."""
    info = np.finfo(y.dtype)
    _, exponent = np.frexp(truth)
    unit = np.ldexp(truth.dtype.type(1), np.maximum(exponent, info.minexp + 1) - 1 - info.nmant)
    # An infinite result is the number that would follow the greatest one.
    beyond = truth.dtype.type(2) ** info.maxexp
    near = [np.clip(x.astype(truth.dtype), -beyond, beyond) for x in (y, truth)]
    error = np.abs(near[0] - near[1]) / unit
    other_sign = (y == 0) & (truth == 0) & (np.signbit(y) != np.signbit(truth))
    return np.where(np.isnan(error) | other_sign, np.inf, error)


def singles(every: int) -> Iterator[Array]:
    """Numbers of single precision, of all representations."""
    chunk = 1 << 22
    for start in range(0, 1 << 32, chunk * every):
        yield np.arange(start, min(start + chunk * every, 1 << 32), every, np.uint64).astype(np.uint32).view(np.float32)


def doubles(count: int) -> Iterator[Array]:
    """Numbers of double precision: of all representations, of the usual sizes, and beside multiples of pi / 2."""
    random = np.random.default_rng(0)
    yield random.integers(0, 1 << 64, count, np.uint64).view(np.float64)
    yield random.uniform(-30, 30, count)
    yield random.uniform(-1.5, 1.5, count)
    yield 2.0 ** random.uniform(-40, 40, count) * random.choice([-1.0, 1.0], count)
    yield 1 + random.uniform(-1, 1, count) * 2.0 ** random.uniform(-40, 0, count)
    yield random.integers(-(10**6), 10**6, count) * (np.pi / 2)
    yield np.array(SPECIAL + [-x for x in SPECIAL])


SPECIAL = [0.0, 5e-324, 1e-308, 1e-40, 0.5, 1.0, 1.5, 2.0, 3.0, 88.5, 709.7, 710.4, 1e22, 1e300, np.inf, np.nan]


def pairs(kind: np.dtype[Any], count: int) -> Iterator[tuple[Array, Array]]:
    """Arguments of functions of two numbers."""
    with np.errstate(over="ignore"):
        special = np.array(SPECIAL + [-x for x in SPECIAL]).astype(kind)
    random = np.random.default_rng(0)
    width = np.uint32 if kind.itemsize == 4 else np.uint64
    raw = [random.integers(0, 1 << 8 * kind.itemsize, count, width, endpoint=False).view(kind) for _ in "xy"]
    yield raw[0], raw[1]
    yield random.uniform(0, 5, count).astype(kind), random.uniform(-30, 30, count).astype(kind)
    yield random.uniform(-5, 5, count).astype(kind), random.integers(-30, 30, count).astype(kind)
    yield (2.0 ** random.uniform(-100, 100, count)).astype(kind), random.uniform(-3, 3, count).astype(kind)
    yield (1 + random.uniform(-1e-3, 1e-3, count)).astype(kind), random.uniform(-7e5, 7e5, count).astype(kind)
    yield np.repeat(special, special.size), np.tile(special, special.size)


def truth(function: Callable[..., Any], xs: Sequence[Array]) -> Array:
    """With more digits than the arguments have; special.erf has no more than double."""
    wide = np.float64 if xs[0].dtype == np.float32 or function is special.erf else np.longdouble
    return function(*[x.astype(wide) for x in xs])


def greatest_error(name: str, native: Native, xs: Sequence[Array]) -> tuple[float, tuple[Any, ...]]:
    """Over these arguments; and where."""
    with np.errstate(all="ignore"):
        y, right = native(*xs), truth(FUNCTIONS[name][0], xs)
        distance = steps(y, right.astype(y.dtype))
        if not distance.any():
            return 0.0, ()
        worst = np.flatnonzero(distance == distance.max())
        error = ulps(y[worst], right[worst])
    at = int(np.argmax(error))
    return float(error[at]), tuple(x[worst[at]].item() for x in xs)


def worst(name: str, kind: str, every: int) -> tuple[float, tuple[Any, ...]]:
    """The greatest error, and where; 0 means that all results are the numbers nearest to the truth."""
    native = Native(name, kind)
    if name in BINARY:
        chunks: Iterator[Sequence[Array]] = pairs(TYPES[kind], 10**6)
    else:
        chunks = ((x,) for x in (singles(every) if kind == "f32" else doubles(10**6)))
    return max((greatest_error(name, native, xs) for xs in chunks), key=lambda found: found[0])


def speed(name: str, kind: str, numpy: bool) -> float:
    """Nanoseconds for an element."""
    function, (low, high) = FUNCTIONS[name]
    random = np.random.default_rng(0)
    xs = [random.uniform(low, high, 1 << 16).astype(TYPES[kind]) for _ in range(2 if name in BINARY else 1)]
    y = np.empty_like(xs[0])
    run = functools.partial(function, *xs, out=y) if numpy else functools.partial(Native(name, kind), *xs, out=y)
    best = float("inf")
    with np.errstate(all="ignore"):
        for _ in range(30):
            start = time.perf_counter()
            for _ in range(5):
                run()
            best = min(best, time.perf_counter() - start)
    return best / 5 / y.size * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="functions, all unless given")
    parser.add_argument("--every", type=int, default=257, help="1: every number of single precision")
    parser.add_argument("--types", nargs="*", default=list(TYPES), choices=list(TYPES))
    chosen = parser.parse_args()
    print(f"{'function':9} {'type':4} {'max ulp':>8} {'ns':>7} {'NumPy ns':>9}  where")
    for name in chosen.names or FUNCTIONS:
        for kind in chosen.types:
            error, where = worst(name, kind, chosen.every)
            times = [speed(name, kind, numpy) for numpy in (False, True)]
            print(f"{name:9} {kind:4} {error:8.2f} {times[0]:7.2f} {times[1]:9.2f}  {where}", flush=True)


if __name__ == "__main__":
    main()
