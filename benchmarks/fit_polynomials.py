"""Makes hybridc/dialects/scalar/coefficients.py: ``python benchmarks/fit_polynomials.py > that file``.

Needs mpmath. Each polynomial has the smallest greatest error on its interval (Remez' exchange on a dense grid of
Chebyshev points). Coefficients are rounded to their type one by one, from that of the lowest power on, and those that
are left are fitted again after each: they make up for the rounding.

Prints the file; and, on stderr, the error of each approximation as a power of two, without that of arithmetic.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mp, mpf

mp.dps = 60
LN2 = mp.log(2)
ERF_EDGE, ERF_MIDDLE, ERF_HALF = mpf("1.1875"), mpf("2.5625"), mpf("1.375")  # of erf in single precision
DIGAMMA_ROOT = mp.findroot(mp.digamma, mpf("1.4616"))
Function = Callable[[mpf], mpf]


def minimax(columns: list[list[mpf]], target: list[mpf], weight: list[mpf]) -> tuple[list[mpf], mpf]:
    """The coefficients with the smallest greatest weighted error over the points, and that error."""
    n, points = len(columns), len(target)
    if n == 0:
        return [], max(abs(w * t) for w, t in zip(weight, target, strict=True))
    at = [round((points - 1) * (1 - math.cos(math.pi * i / n)) / 2) for i in range(n + 1)]
    best: tuple[list[mpf], mpf] | None = None
    for _ in range(200):
        rows = mp.matrix(n + 1, n + 1)
        for i, p in enumerate(at):
            for j in range(n):
                rows[i, j] = columns[j][p]
            rows[i, n] = (-1) ** i / weight[p]
        *found, level = mp.lu_solve(rows, mp.matrix([target[p] for p in at]))
        error = [
            w * (t - mp.fsum(c * col[p] for c, col in zip(found, columns, strict=True)))
            for p, (w, t) in enumerate(zip(weight, target, strict=True))
        ]
        new = max(range(points), key=lambda p: abs(error[p]))
        if best is None or abs(error[new]) < best[1]:
            best = found, abs(error[new])
        if abs(error[new]) <= abs(level) * mpf("1.01"):
            break
        at = _exchange(at, error, new)
    assert best is not None
    return best


def _exchange(at: list[int], error: list[mpf], new: int) -> list[int]:
    """The points with the worst one among them, so that the signs of the error still alternate."""
    same = [(error[p] >= 0) == (error[new] >= 0) for p in at]
    after = sum(p < new for p in at)
    if after == 0:
        return [new, *at[1:]] if same[0] else [new, *at[:-1]]
    if after == len(at):
        return [*at[:-1], new] if same[-1] else [*at[1:], new]
    out = after - 1 if same[after - 1] else after
    return [new if i == out else p for i, p in enumerate(at)]


@dataclass
class Fit:
    """sum of c[k] x**k, as near to ``f`` as ``weight`` asks for; the ``first`` coefficients are given."""

    name: str
    kind: str  # "f32" or "f64"
    f: Function
    weight: Function
    low: mpf
    high: mpf
    degree: int
    first: tuple[float, ...] = ()

    def solve(self) -> list[float]:
        count = 24 * (self.degree + 2)
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        xs = [middle - half * mp.cos(mp.pi * (i + mpf(1) / 2) / count) for i in range(count)]
        values, weights = [self.f(x) for x in xs], [self.weight(x) for x in xs]
        columns = [[x**k for x in xs] for k in range(self.degree + 1)]
        known = [mpf(c) for c in self.first]
        errors: list[mpf] = []
        while True:
            rest = [v - mp.fsum(c * x**k for k, c in enumerate(known)) for x, v in zip(xs, values, strict=True)]
            # The error is a multiple of the lowest power that is free: where that changes its sign, so does it.
            signed = [w * mp.sign(x) ** len(known) for w, x in zip(weights, xs, strict=True)]
            found, error = minimax(columns[len(known) :], rest, signed)
            errors.append(error)
            if not found:
                break
            known.append(mpf(self.rounded(found[0])))
        digits = [f"2**{float(mp.log(e, 2)):.1f}" for e in (errors[0], errors[-1])]
        print(f"{self.name}_{self.kind}: {digits[0]}, rounded {digits[1]}", file=sys.stderr)
        return [float(c) for c in known]

    def rounded(self, x: mpf) -> float:
        return float(np.float32(float(x))) if self.kind == "f32" else float(x)


def power_series(f: Function, at: int, terms: int = 40) -> Callable[[mpf], mpf]:
    """f without the ``at`` first terms of its series at 0, over x**at; by the series where x is small."""
    series = mpmath.taylor(f, 0, terms)

    def rest(x: mpf) -> mpf:
        if abs(x) < mpf("0.05"):
            return mp.polyval(series[at:][::-1], x)
        return (f(x) - mp.polyval(series[:at][::-1], x)) / x**at

    return rest


def even(f: Function) -> Function:
    """f of the square root: what is even in x is smooth in x**2."""
    return lambda z: f(mp.sqrt(z))


def fits() -> list[Fit]:
    """All of them: the formulas that use them say what they are."""
    edge = LN2 / 2 * (1 + mpf(1) / 256)
    exp2 = power_series(mp.exp, 2)

    def exp_weight(r: mpf) -> mpf:
        return max(r * r / mp.exp(r), abs(r * r / (mp.expm1(r) or r or 1)))

    log = power_series(mp.log1p, 1, 60)
    low, high = mp.sqrt(mpf(1) / 2) - 1 - mpf(1) / 1024, mp.sqrt(2) - 1 + mpf(1) / 1024
    log2e, log10e = 1 / LN2, 1 / mp.log(10)
    turn = (mpf(5) / 8 * mp.pi / 2) ** 2
    sine = power_series(lambda x: mp.sin(x) / x if x else mpf(1), 2)
    cosine = power_series(mp.cos, 4)
    hyperbolic = edge**2
    sinh = power_series(lambda x: mp.sinh(x) / x if x else mpf(1), 2)
    cosh = power_series(mp.cosh, 2)
    tiny, far, eighth = mpf(10) ** -20, mpf(5) / 2, mpf(1) / 8

    def log_erfc(x: mpf) -> mpf:
        return mp.log(mp.erfc(x))

    def ratio(f: Function) -> Function:
        return lambda z: f(mp.sqrt(z)) / mp.sqrt(z) if z > tiny else f(mp.sqrt(tiny)) / mp.sqrt(tiny)

    def relative(f: Function) -> Function:
        return lambda x: 1 / f(x)

    def tanh_weight(r: mpf) -> mpf:
        return abs(r * r / (mp.expm1(2 * r) / 2 or 1))

    def log_gamma(t: mpf) -> mpf:
        return mp.loggamma(2 + t) / t if abs(t) > tiny else 1 - mp.euler

    def gamma(t: mpf) -> mpf:
        return mp.gamma(t + mpf(5) / 2)

    def digamma(t: mpf) -> mpf:
        x = t + mpf(3) / 2
        return mp.digamma(x) / (x - DIGAMMA_ROOT) if abs(x - DIGAMMA_ROOT) > tiny else mp.polygamma(1, DIGAMMA_ROOT)

    def erfinv(w: mpf) -> mpf:
        """The inverse of erf over its argument, by w = -log(1 - argument**2)."""
        x = mp.sqrt(-mp.expm1(-max(w, mpf(10) ** -30)))
        return mp.erfinv(x) / x

    def tail(middle: int) -> Function:
        return lambda s: erfinv((s + middle) ** 2)

    erf = ratio(mp.erf)
    atan = power_series(lambda x: mp.atan(x) / x if x else mpf(1), 2, 60)
    asin = power_series(lambda x: mp.asin(x) / x if x else mpf(1), 2, 60)
    made: list[Fit] = []
    for kind in ("f32", "f64"):
        single = kind == "f32"
        made += [
            Fit("EXP", kind, exp2, exp_weight, -edge, edge, 4 if single else 9),
            Fit("LOG", kind, log, relative(log), low, high, 9 if single else 20, first=(1.0,)),
        ]
    made += [
        Fit("LOG2", "f32", lambda x: log(x) * log2e, relative(lambda x: log(x) * log2e), low, high, 9),
        Fit("POWER_LOG2", "f64", lambda x: log(x) * log2e, relative(lambda x: log(x) * log2e), low, high, 12),
        Fit("POWER_EXP2", "f64", lambda x: mpf(2) ** x, lambda x: mpf(2) ** -x, mpf("-0.501"), mpf("0.501"), 6),
        Fit("LOG10", "f32", lambda x: log(x) * log10e, relative(lambda x: log(x) * log10e), low, high, 9),
        Fit("TANH", "f32", power_series(lambda x: mp.expm1(2 * x) / 2, 2), tanh_weight, -edge / 2, edge / 2, 5),
        Fit("ERF_NEAR", "f32", lambda z: erf(z) - 1, relative(erf), mpf(0), ERF_EDGE**2, 6),
        Fit("ERF_FAR", "f32", lambda x: mp.erf(x + ERF_MIDDLE), lambda _: mpf(1), -ERF_HALF, ERF_HALF, 13),
    ]
    for kind in ("f32", "f64"):
        single = kind == "f32"
        made += [
            Fit("SIN", kind, even(sine), lambda z: z, mpf(0), turn, 2 if single else 6),
            Fit("COS", kind, even(cosine), lambda z: z * z, mpf(0), turn, 2 if single else 5),
        ]
    for kind in ("f32", "f64"):
        single = kind == "f32"
        made += [
            Fit("SINH", kind, even(sinh), lambda z: z, mpf(0), hyperbolic, 1 if single else 4),
            Fit("COSH", kind, even(cosh), lambda z: z, mpf(0), hyperbolic, 2 if single else 5, first=(0.5,)),
            Fit("ATAN", kind, even(atan), lambda z: z, mpf(0), mpf(1), 8 if single else 19),
            Fit("ASIN", kind, even(asin), lambda z: z, mpf(0), mpf(1) / 4, 4 if single else 11),
        ]
    made += [
        Fit("ERF_NEAR", "f64", erf, relative(erf), mpf(0), mpf(1), 11),
        Fit("ERF_FAR", "f64", lambda x: log_erfc(x + mpf(7) / 2), lambda x: mp.erfc(x + mpf(7) / 2), -far, far, 18),
        Fit("ASINH", "f32", even(power_series(mp.asinh, 3, 60)), lambda z: z, mpf(0), mpf(1), 7),
        Fit("ATANH", "f32", even(power_series(mp.atanh, 3, 60)), lambda z: z, mpf(0), mpf(1) / 4, 5),
        Fit("ATANH", "f64", even(power_series(mp.atanh, 3, 60)), lambda z: z, mpf(0), mpf("0.0296"), 7),
        Fit(
            "ERFINV_NEAR",
            "f64",
            lambda t: erfinv(t + 25 * eighth),
            relative(lambda t: erfinv(t + 25 * eighth)),
            -25 * eighth,
            25 * eighth,
            23,
        ),
        Fit("ERFINV_MIDDLE", "f64", tail(3), relative(tail(3)), mpf(-1) / 2, mpf(1), 18),
        Fit("ERFINV_FAR", "f64", tail(5), relative(tail(5)), mpf(-1), mpf("1.01"), 17),
        Fit("LGAMMA", "f64", log_gamma, relative(log_gamma), mpf(-1) / 2, mpf(1), 20),
        Fit("GAMMA", "f64", gamma, relative(gamma), mpf(-1) / 2, mpf(1) / 2, 16),
        Fit("DIGAMMA", "f64", digamma, relative(digamma), mpf(-1) / 2, mpf(1) / 2, 21),
    ]
    return made


HEADER = '''"""Coefficients of the approximations, lowest power first: benchmarks/fit_polynomials.py makes this file.

A table's name says what its polynomial is part of and in which format; its formula says how it is used.
"""

# fmt: off
'''


def print_table(name: str, values: Sequence[float]) -> None:
    print(f"{name} = (")
    for v in values:
        print(f"    {v!r},")
    print(")")


def split(x: mpf, kept: int) -> tuple[float, float]:
    """x as a float of so many bits, whose products with small integers are exact, and what is missing."""
    scale = mpf(2) ** (kept - 1 - mp.floor(mp.log(x, 2)))
    high = mp.floor(x * scale) / scale
    return float(high), float(x - high)


def parts_of_single(x: mpf) -> tuple[float, float]:
    """x as a float32, and what is missing."""
    high = np.float32(float(x))
    return float(high), float(x - float(high))


def print_constants() -> None:
    """What is no polynomial."""
    print("# Above these, a float32 cannot be told from 1.")
    print("TANH_ONE = 9.03\nERF_ONE = 3.9375")
    print("# Where the second polynomial of erf begins, and the middle of its range.")
    print(f"ERF_EDGE_F32 = {float(ERF_EDGE)}\nERF_MIDDLE_F32 = {float(ERF_MIDDLE)}")
    print("# Split, so that the first part times an exponent is exact.")
    print(f"LN2_F32 = {split(LN2, 15)}\nLN2_F64 = {split(LN2, 41)}")
    print("# Rounded, and what is missing.")
    print(f"HALF_PI_F32 = {parts_of_single(mp.pi / 2)}\nHALF_PI_F64 = {split(mp.pi / 2, 53)}")
    print("# The positive root of digamma, rounded, and what is missing.")
    print(f"DIGAMMA_ROOT = {split(DIGAMMA_ROOT, 53)}")
    length = 1280
    with mp.workdps(500):
        bits = int(mp.floor(2 / mp.pi * mpf(2) ** length))
    digits = f"{bits:X}"
    print("# The bits of 2 / pi after the point.")
    print(f"TWO_OVER_PI_LENGTH = {length}\nTWO_OVER_PI_BITS = int(")
    for start in range(0, len(digits), 80):
        print(f'    "{digits[start : start + 80]}"')
    print("    , 16)")


def main() -> None:
    wanted = sys.argv[1:]
    if not wanted:
        print(HEADER, end="")
        print_constants()
    for fit in fits():
        if wanted and fit.name not in wanted and f"{fit.name}_{fit.kind}" not in wanted:
            continue
        print_table(f"{fit.name}_{fit.kind.upper()}", fit.solve())


if __name__ == "__main__":
    main()
