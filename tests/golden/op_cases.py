"""Every golden operator case: plain Python that runs under MXNet's interpreter and under ours.

A case is a piece of code, such as `nd.softmax(x, axis=0)`, and its inputs. `make_ops.py` evaluates it with
MXNet 1.9.1 and stores inputs, results and gradients in `ops.npz`; `tests/test_golden_ops.py` evaluates it
with hybridc. Cases are added in the `cases_*.py` files, by family.
"""

from __future__ import annotations

import ast
import zlib
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Spec:
    """Random input: uniform in [lo, hi) for floats, integers in [lo, hi) otherwise."""

    shape: tuple
    lo: float
    hi: float
    dtype: str = "float32"

    def make(self, seed):
        rng = np.random.RandomState(seed)
        if np.dtype(self.dtype).kind == "f":
            return rng.uniform(self.lo, self.hi, self.shape).astype(self.dtype)
        return rng.randint(int(self.lo), int(self.hi), self.shape).astype(self.dtype)


def F(*shape, lo=-2.0, hi=2.0, dtype="float32"):
    """Floats of both signs."""
    return Spec(shape, lo, hi, dtype)


def P(*shape, lo=0.5, hi=3.0, dtype="float32"):
    """Positive floats, away from zero."""
    return Spec(shape, lo, hi, dtype)


def I(*shape, lo=-9, hi=10, dtype="int32"):  # noqa: E743
    """Integers of both signs (none below zero where the type has no sign)."""
    return Spec(shape, 0 if dtype in ("uint8", "bool") and lo < 0 else lo, 2 if dtype == "bool" else hi, dtype)


def V(*values, dtype="float32", shape=None):
    """These very values."""
    made = np.array(values, dtype=dtype)
    return made if shape is None else made.reshape(shape)


# Why MXNet has no result for arrays without elements.
EMPTY = "in MXNet's shapes 0 means unknown; here it is an extent like any other"
SPECIAL = V(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5)


@dataclass(frozen=True, eq=False)
class Case:
    """One expression, its inputs, and what is asked of it.

    code     statements separated by ';', the last one an expression: an array or a list of arrays.
             It sees `mx`, `nd` (mx.nd, or F while tracing), `np` and the inputs by name.
    grad     also compare the gradient of sum(result * fixed weights) for each float input, or for those named
    trace    also run it inside a hybridized block
    no_grad  why MXNet's gradient is wrong or missing: hybridc's is compared with finite differences
             instead, or with `want`: an expression over the inputs, `out` and the weights `w` of the output
    compat   why hybridc differs from MXNet on purpose; `want` is then the NumPy expression it must equal
    raises   an error is what is being tested: MXNet's, or with `compat` hybridc's alone
    """

    name: str
    code: str
    inputs: dict = field(default_factory=dict)
    grad: bool | tuple = True
    trace: bool = True
    raises: bool = False
    no_grad: str = ""
    compat: str = ""
    want: str = ""
    rtol: float = 0.0
    atol: float = 0.0

    def fn(self, mx, *arrays):
        """Evaluate the code with this `mx` on these arrays."""
        names = {"mx": mx, "nd": mx.nd, "np": np, **dict(zip(self.inputs, arrays))}
        return evaluate(self.code, names, self.name)

    def wanted(self, **more):
        """The NumPy value that hybridc must give where it differs from MXNet on purpose."""
        return evaluate(self.want, {"np": np, "V": V, **self.inputs, **more}, self.name)

    def differentiated(self):
        """Names of the inputs whose gradient is compared."""
        if not self.grad:
            return []
        if self.grad is not True:
            return list(self.grad)
        return [name for name, value in self.inputs.items() if value.dtype.kind == "f"]

    def weights(self, index, shape, dtype):
        """The fixed random weights of output number `index` in the sum that is differentiated."""
        rng = np.random.RandomState(seed_of(self.name + str(index)))
        return rng.uniform(0.5, 1.5, shape).astype(dtype)


def evaluate(code, names, where):
    """Run the statements of `code`; the value of the last, an expression."""
    tree = ast.parse(code, "<" + where + ">")
    last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, "<" + where + ">", "exec"), names)
    return eval(compile(last, "<" + where + ">", "eval"), names)


def seed_of(text):
    """A seed that depends on the text alone, so that adding a case changes no other."""
    return zlib.crc32(text.encode())


class Cases(list):
    """Collects cases: `add("x + y", x=F(2, 3), y=F(2, 3))`; the family's tag is part of each name."""

    def __init__(self, tag=""):
        super().__init__()
        self.tag = tag

    def add(
        self,
        code,
        *,
        tag="",
        grad=None,
        trace=True,
        raises=False,
        no_grad="",
        compat="",
        want="",
        rtol=0.0,
        atol=0.0,
        **inputs,
    ):
        """Add one case, named by its code and the types of its inputs."""
        types = " ".join(f"{k}:{np.dtype(v.dtype).name}{list(v.shape)}".replace(" ", "") for k, v in inputs.items())
        name = " | ".join(part for part in (code, types, self.tag, tag) if part)
        twins = sum(case.name.partition(" #")[0] == name for case in self)
        name += f" #{twins + 1}" if twins else ""
        made = {k: v.make(seed_of(name + k)) if isinstance(v, Spec) else v for k, v in inputs.items()}
        if grad is None:
            grad = any(v.dtype.kind == "f" for v in made.values()) and not raises
        self.append(Case(name, code, made, grad, trace, raises, no_grad, compat, want, rtol, atol))


def outputs_of(value):
    """The results as a list of NumPy arrays, whatever the code returned."""
    if isinstance(value, (list, tuple)) and any(hasattr(item, "asnumpy") for item in value):
        return [one_output(item) for item in value]
    return [one_output(value)]


def one_output(value):
    """One result as a NumPy array."""
    if hasattr(value, "asnumpy"):
        return value.asnumpy()
    return (
        np.asarray(value)
        if isinstance(value, (bool, int, float, str, np.ndarray, np.generic))
        else np.asarray(repr(value))
    )


def all_cases():
    """Every case, by name."""
    from . import (
        cases_array,
        cases_conv,
        cases_edges,
        cases_index,
        cases_math,
        cases_more,
        cases_nn,
        cases_pool,
        cases_reduce,
        cases_shape,
        cases_vision,
    )

    found = {}
    families = (cases_math, cases_reduce, cases_nn, cases_shape, cases_array, cases_index, cases_edges, cases_more)
    for module in (*families, cases_conv, cases_pool, cases_vision):
        for case in module.CASES:
            if case.name in found:
                raise ValueError(f"two cases are called {case.name!r}: give one a tag")
            found[case.name] = case
    return found
