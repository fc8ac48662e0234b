"""Each row of the table of scalar steps, on every target, against NumPy in float64: what a row lacks fails here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import hybridc as mx
from hybridc import autograd, op
from hybridc.compile import targets
from hybridc.dialects.operator_registry import OPERATORS
from hybridc.dialects.scalar import NUMPY, loop_dtypes
from hybridc.dialects.scalar.table import OPERATIONS as ROWS
from hybridc.dialects.scalar.table import STEPS
from hybridc.errors import UnsupportedError
from hybridc.gluon.nn import HybridLambda

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import c_target


def of_integers(function):
    """A function of bits, of whole numbers in float64."""
    return lambda *xs: function(*[x.astype("int64") for x in xs])


# What each step means. Beside a nan a comparison is false; of booleans the sum is "or", the product "and".
MEANING = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.mod, "fmod": np.fmod,
    "pow": np.power, "neg": np.negative, "abs": np.abs, "sign": np.sign, "max": np.maximum, "min": np.minimum,
    "hypot": np.hypot, "square": np.square, "reciprocal": np.reciprocal, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
    "cbrt": np.cbrt, "logistic": special.expit, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint, "erf": special.erf, "erfinv": special.erfinv, "gamma": special.gamma,
    "lgamma": special.gammaln, "digamma": special.psi, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "copysign": np.copysign, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "quotient": lambda x, y: x / y,
    **{name: of_integers(getattr(np, name)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "bitwise_not": of_integers(np.invert),
    "left_shift": lambda x, y: x * 2.0**y,
    "right_shift": lambda x, y: np.floor(x / 2.0**y),
    "select": lambda x, y: np.where(x > y, x, y),
    "cast": lambda x: np.trunc(x),
    "like": lambda x: x + 2.5,
}  # fmt: skip
# How the steps are called whose operands are no numbers alone.
CALLS = {
    "select": lambda b, x, y: b.select(x > y, x, y),
    "cast": lambda b, x: b.cast(b.cast(x, "int32"), "float32"),
    "like": lambda b, x: x + b.like(x, 2.5),
}
KINDS = ("float32", "int32", "uint8", "bool")
EDGES = np.array([0.0, -0.0, 1.5, -1.5, 2.0, -7.25, 1e-30, 3e38, np.inf, -np.inf, np.nan])
INTEGERS = np.array([0, 1, -1, 2, -2, 7, -7, 100, -128, 127])
RNG = np.random.default_rng(0)
BY = (1.0, 0.5, 2.25, 3.0, np.inf, np.nan)
FLOATS = [np.concatenate([RNG.uniform(-3, 3, 90), v]).astype("float32") for v in (BY, BY[::-1])]
WHOLE = [RNG.integers(low, 6, 96).astype("float32") for low in (0, 1)]


def count(step):
    return 2 if step == "select" else 1 if step in CALLS else len(STEPS[step].operands)


def body(step, kind):
    """A scalar body of floats whose step is computed in a dtype."""
    call = CALLS.get(step, lambda b, *xs: getattr(b, step)(*xs))
    return lambda b, *xs: b.cast(call(b, *[b.cast(x, kind) for x in xs[: count(step)]]), "float32")


def operator(step, kind):
    """The name of an operator of such a body."""
    name = f"one_{step}_{kind}"
    if f"table.{name}" not in OPERATORS:

        class Body(op.Elementwise):
            """One step"""

            INPUTS = ("x", "y")[: count(step)]

            def scalar(self, b, *xs):
                return body(step, kind)(b, *xs)

        op.register(f"table.{name}")(Body)
    return name


def steps_of(kind):
    """The steps of which NumPy has a loop for operands of a dtype."""
    chosen = []
    for step in STEPS:
        try:
            loop_dtypes(step, (np.dtype(kind),) * count(step)) if step not in CALLS else None
        except TypeError:
            continue
        if step not in CALLS or kind == "float32":
            chosen.append(step)
    return chosen


def arrays(kind):
    return FLOATS if kind == "float32" else WHOLE


def meant(step, kind):
    """The result in float64, as the dtype of the step's results has it."""
    xs = [x.astype(kind).astype("float64") for x in arrays(kind)[: count(step)]]
    with np.errstate(all="ignore"):
        result = np.logical_not(*xs) if (step, kind) == ("bitwise_not", "bool") else MEANING[step](*xs)
    if step in CALLS:
        return result
    out = loop_dtypes(step, (np.dtype(kind),) * count(step))[-1]
    with np.errstate(all="ignore"):
        return result.astype(out).astype("float64")


def check(step, kind, got):
    want = meant(step, kind)
    if step == "cast":  # of what is no number anything may come
        got, want = got[np.isfinite(want)], want[np.isfinite(want)]
    if step == "reciprocal" and kind != "float32":  # of 0, too
        fits = arrays(kind)[0] != 0
        got, want = got[fits], want[fits]
    if STEPS[step].exact:
        np.testing.assert_array_equal(got, want.astype("float32"), f"{step} of {kind}")
    near = {"rtol": 2e-6, "atol": 1e-6} if kind in ("float32", "int32") else {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(got, want.astype("float32"), err_msg=f"{step} of {kind}", **near)


def test_every_step_is_checked():
    assert {*MEANING} == {*STEPS}
    for name, step in STEPS.items():
        assert step.doc.endswith("."), name
        assert hasattr(NUMPY, name)
        forms = [any(step.operations), step.expansion is not None, name in ("cast", "like")]
        assert sum(forms) == 1, name


@pytest.mark.parametrize("kind", KINDS)
def test_eager(kind):
    for step in steps_of(kind):
        with np.errstate(all="ignore"):
            check(step, kind, body(step, kind)(NUMPY, *arrays(kind)))


def results(target, kind):
    """The results of all steps, compiled together."""
    names = {step: operator(step, kind) for step in steps_of(kind)}

    def function(F, x, y):
        return [getattr(F, name)(*(x, y)[: count(step)]) for step, name in names.items()]

    inputs = [mx.nd.array(x) for x in arrays(kind)]
    run = HybridLambda(function).trace(*inputs).optimize().lower(target).compile()
    return zip(names, [y.asnumpy() for y in run(*inputs)], strict=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["numpy", "llvm", pytest.param("triton", marks=pytest.mark.triton)])
def test_compiled(target, kind):
    for step, got in results(target, kind):
        check(step, kind, got)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("kind", KINDS)
def test_printed_as_c(monkeypatch, kind):
    monkeypatch.setitem(targets.TARGETS, "c", c_target.C())
    for step, got in results("c", kind):
        check(step, kind, got)


# The steps that no operator differentiates.
WITHOUT = ("digamma",)


# The steps of integers alone.
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift")


@pytest.mark.parametrize("step", [step for step in STEPS if step not in CALLS and step not in BITS])
def test_gradients(step):
    """Those of an operator with this step, against differences of what it means."""

    class Body(op.Elementwise):
        """One step"""

        INPUTS = ("x", "y")[: count(step)]

        def scalar(self, b, *xs):
            return getattr(b, step)(*xs)

    op.register(f"table.differentiated_{step}")(Body)
    inside = (1.2, 2.4) if step == "acosh" else (0.15, 0.85)
    xs = [RNG.uniform(*inside, 20) for _ in range(count(step))]
    inputs = [mx.nd.array(x, dtype="float64") for x in xs]
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        y = getattr(mx.nd, f"differentiated_{step}")(*inputs)
    if step in WITHOUT:
        with pytest.raises(UnsupportedError):
            y.backward()
        return
    y.backward()
    for i, x in enumerate(inputs):
        above, below = ([v + d * (i == j) for j, v in enumerate(xs)] for d in (1e-6, -1e-6))
        differences = (MEANING[step](*above) * 1.0 - MEANING[step](*below) * 1.0) / 2e-6
        assert STEPS[step].flat == (not differences.any()) or (step, i) == ("copysign", 1), step
        np.testing.assert_allclose(x.grad.asnumpy(), differences, rtol=1e-6, atol=1e-8, err_msg=step)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint8", "bool"])
@pytest.mark.parametrize("step", [name for name, step in STEPS.items() if step.composed is not None])
def test_composed_steps(step, dtype):
    """What a step is made of is what NumPy's function gives."""
    values = (EDGES if dtype.startswith("f") else INTEGERS).astype(dtype)
    xs = [g.reshape(-1) for g in np.meshgrid(*[values] * count(step))]
    ufunc = getattr(NUMPY, step)
    try:
        *wanted, out = loop_dtypes(step, tuple(x.dtype for x in xs))
    except TypeError:
        with pytest.raises(TypeError):
            ufunc(*xs)
        return
    if step == "reciprocal" and out.kind in "iu":
        xs = [x[x != 0] for x in xs]  # undefined in NumPy, too
    with np.errstate(all="ignore"):
        got = STEPS[step].composed(NUMPY, *[x.astype(d) for x, d in zip(xs, wanted, strict=True)])
        want = ufunc(*xs)
    assert want.dtype == out
    np.testing.assert_allclose(np.asarray(got).astype(out), want, rtol=2e-3 if out == np.float16 else 1e-6)


@pytest.mark.parametrize(
    ("step", "kinds", "expected"),
    [
        ("add", ("float32", float), ("float32", "float32", "float32")),
        ("less_than_half", ("int32", float), ("float64", "float64", "bool")),
        ("div", ("int32", "int32"), ("float64", "float64", "float64")),
        ("exp", ("int8",), ("float16", "float16")),
        ("erf", ("float16",), ("float32", "float32")),
        ("logical_and", ("bool", bool), ("bool", "bool", "bool")),
    ],
)
def test_dtypes_of_steps(step, kinds, expected):
    step = {"less_than_half": "lt"}.get(step, step)
    kinds = tuple(k if isinstance(k, type) else np.dtype(k) for k in kinds)
    assert loop_dtypes(step, kinds) == tuple(map(np.dtype, expected))


def test_operations_have_rows_of_their_own():
    """No two steps say different things of an operation."""
    for step in STEPS.values():
        for form in step.operations:
            assert form is None or not form.name or ROWS[form.name] is form
