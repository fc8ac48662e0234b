"""Reductions, arg-reductions, sorting, and matrix products."""

from __future__ import annotations

import numpy as np

from .op_cases import EMPTY, SPECIAL, Cases, F, I, P, V

CASES = Cases()
add = CASES.add

ARGS = ["", "axis=0", "axis=1", "axis=-1", "axis=(0, 2)", "axis=(-1, -2)", "axis=1, keepdims=True", "keepdims=True", "axis=()",
        "axis=1, exclude=True", "axis=(0, 1), exclude=True, keepdims=True", "axis=-1, exclude=True"]  # fmt: skip


def call(name, args):
    return f"nd.{name}({', '.join(['x', args] if args else ['x'])})"


mixed = V(np.nan, 1, 2, np.inf, 3, np.nan, -np.inf, 4, shape=(2, 4))
add(
    "nd.nansum(x, axis=0)",
    x=mixed,
    compat="MXNet's compensated sum makes NaN of inf + 4",
    want="np.nansum(x, axis=0)",
)
for name in ["sum", "mean", "prod", "nansum", "nanprod", "max", "min"]:
    for args in ARGS:
        add(call(name, args), x=F(2, 3, 4))
    add(call(name, "axis=1"), x=F(3, 5, dtype="float64"))
    add(call(name, "axis=0"), x=F(3, 5, dtype="float16"), rtol=8e-3, atol=2e-3)
    add(call(name, ""), x=I(2, 3, lo=1, hi=4))
    add(call(name, "axis=0"), x=I(4, 3, lo=-3, hi=4))
    add(call(name, "axis=1"), x=I(2, 3, lo=1, hi=4, dtype="int64"))
    if name != "nansum":
        add(call(name, "axis=0"), x=mixed, tag="special", grad=False)
    add(call(name, "axis=2"), x=F(2, 0, 3), compat=EMPTY, want="np.zeros((2, 0), 'float32')", tag="empty")
    add(call(name, "axis=5"), x=F(2, 3), raises=True)
    add(call(name, "axis=(0, 0)"), x=F(2, 3), raises=True)
for name in ["nansum", "nanprod"]:
    add(call(name, "axis=0"), x=V(np.nan, 1, 2, 3, 3, np.nan, np.nan, 4, shape=(2, 4)), tag="nan")
add("nd.sum(x, axis=1)", x=I(2, 3, hi=100, dtype="uint8"))
add("nd.sum(x, axis=1)", x=I(2, 3, dtype="int8"))
add("nd.max(x)", x=V(1, 3, 3, 2, 3, 0, shape=(2, 3)), tag="ties")
add("nd.max(x, axis=1)", x=V(1, 3, 3, 2, 2, 0, shape=(2, 3)), tag="ties")
add("nd.min(x, axis=0)", x=V(1, 3, 3, 1, 2, 3, shape=(2, 3)), tag="ties")
add("nd.prod(x, axis=1)", x=V(1, 0, 3, 2, 2, 4, shape=(2, 3)), tag="zero", grad=False)
for alias in ["sum_axis", "max_axis", "min_axis"]:
    add(f"nd.{alias}(x, axis=1)", x=F(2, 3))
add("nd.sum(x, axis=[0, 1])", x=F(2, 3, 4))
add("nd.mean(x, axis=1)", x=F(3, 1, 2))
add("nd.sum(x)", x=F(1))
add("nd.sum(x)", x=F(70, 31))
add("nd.cumsum(x)", x=F(2, 3))
add("nd.cumsum(x, axis=0)", x=F(2, 3))
add("nd.cumsum(x, axis=1, dtype='float64')", x=F(2, 3), grad=False)
add("nd.moments(x, axes=(0,))", x=F(3, 4))
add("nd.moments(x, axes=(0, 2), keepdims=True)", x=F(3, 4, 2))

for args in ["", "ord=1", "ord=2", "axis=0", "axis=-1, keepdims=True", "ord=1, axis=1", "ord=2, axis=(0, 1)", "ord=1, axis=(1, 2)",
             "ord=2, axis=(1, 2), keepdims=True", "keepdims=True", "axis=()"]:  # fmt: skip
    add(call("norm", args), x=F(2, 3, 4))
add("nd.norm(x)", x=F(5, dtype="float64"))
add("nd.norm(x)", x=F(5, dtype="float16"), rtol=5e-3)
add("nd.norm(x, out_dtype='float64')", x=F(5), compat="MXNet fails for any out_dtype but the input's",
    want="np.sqrt(np.sum(x.astype('float64') ** 2, keepdims=True))")  # fmt: skip
add("nd.norm(x, ord=1, axis=0)", x=I(4, 3), grad=False)
add("nd.norm(x, ord=3)", x=F(5), raises=True)

for name in ["argmax", "argmin"]:
    for args in ["", "axis=0", "axis=1", "axis=-1", "axis=1, keepdims=True", "keepdims=True"]:
        add(call(name, args), x=F(2, 3, 4), grad=False)
    add(call(name, "axis=1"), x=V(1, 3, 3, 0, 0, 2, shape=(2, 3)), tag="ties", grad=False)
    add(call(name, "axis=0"), x=I(5, 2), grad=False)
    add(call(name, "axis=0"), x=F(5, 2, dtype="float64"), grad=False)
    add(call(name, "axis=0"), x=F(5, 2, dtype="float16"), grad=False)
    add(call(name, "axis=0"), x=V(1, np.nan, 3), tag="nan", grad=False)
add("nd.argmax_channel(x)", x=F(3, 4), grad=False)

SORT = "MXNet fails on its own default axis"
for args in ["", "axis=0", "axis=1, is_ascend=False", "axis=None", "axis=-2, is_ascend=0", "is_ascend=False"]:
    add(call("sort", args), x=F(3, 5), no_grad="" if "axis" in args else SORT)
    add(call("argsort", args), x=F(3, 5), grad=False)
add("nd.sort(x)", x=I(7), trace=True)
add("nd.argsort(x)", x=V(3, 1, 2, 9, 7, dtype="int32"))
add("nd.argsort(x, dtype='int32')", x=F(2, 4), grad=False)
add("nd.argsort(x, dtype='int64', is_ascend=False)", x=F(2, 4), grad=False)
add("nd.argsort(x)", x=V(1, 1, 0, 0, 1), tag="ties", grad=False)
add("nd.argsort(x, is_ascend=False)", x=V(1, 1, 0, 0, 1), tag="ties", grad=False)
add("nd.sort(x)", x=F(4, dtype="float64"), no_grad=SORT)
add("nd.sort(x)", x=F(4, dtype="float16"), compat="MXNet sorts no float16", want="np.sort(x)")
for args in ["", "k=2", "k=3, axis=0", "k=2, ret_typ='value'", "k=2, ret_typ='both'", "k=2, ret_typ='mask'",
             "k=2, ret_typ='value', is_ascend=True", "k=2, ret_typ='indices', is_ascend=True", "axis=None, k=4", "k=0",
             "k=2, axis=1, ret_typ='mask', is_ascend=True", "k=1, dtype='int32'", "axis=None, k=3, ret_typ='value'",
             "k=2, ret_typ='both', dtype='int64'", "axis=-2, k=2, ret_typ='both', is_ascend=1"]:  # fmt: skip
    add(call("topk", args), x=F(4, 5), grad="value" in args)
add("nd.topk(x, k=2, axis=1)", x=F(2, 3, 2), grad=False)
add("nd.topk(x, k=2)", x=V(5, 1, 9, 7, dtype="int32"))
add("nd.topk(x, k=2)", x=V(1, 1, 0, 2, 2), tag="ties", grad=False)
add("nd.topk(x, k=9)", x=F(4), raises=True)

# Products.

add("nd.dot(x, y)", x=F(2, 3), y=F(3, 4))
add("nd.dot(x, y, transpose_a=True)", x=F(3, 2), y=F(3, 4))
add("nd.dot(x, y, transpose_b=True)", x=F(2, 3), y=F(4, 3))
add("nd.dot(x, y, transpose_a=True, transpose_b=True)", x=F(3, 2), y=F(4, 3))
add("nd.dot(x, y)", x=F(3), y=F(3))
add("nd.dot(x, y)", x=F(2, 3), y=F(3))
add("nd.dot(x, y)", x=F(3), y=F(3, 2))
add("nd.dot(x, y)", x=F(2, 3, 4), y=F(4, 5))
add("nd.dot(x, y)", x=F(2, 3), y=F(3, 4, 5))
add("nd.dot(x, y)", x=F(2, 3, 4), y=F(4, 3, 2))
add("nd.dot(x, y, transpose_a=True)", x=F(3, 2, 4), y=F(3, 5))
add("nd.dot(x, y, transpose_b=True)", x=F(2, 3), y=F(4, 5, 3))
add("nd.dot(x, y, transpose_a=True, transpose_b=True)", x=F(3, 2, 4), y=F(5, 2, 3))
add("nd.dot(x, y)", x=F(2, 3, dtype="float64"), y=F(3, 2, dtype="float64"))
add("nd.dot(x, y)", x=F(2, 3, dtype="float16"), y=F(3, 2, dtype="float16"), rtol=8e-3, atol=5e-3,
    compat="MXNet multiplies float16 matrices on the GPU only", want="x @ y")  # fmt: skip
add("nd.dot(x, y)", x=I(2, 3), y=I(3, 2), raises=True)
add("nd.dot(x, y)", x=F(2, 3), y=F(4, 2), raises=True)
add("nd.dot(x, y)", x=F(17, 33), y=F(33, 9), atol=1e-5)
add("nd.dot(x, y)", x=F(0, 3), y=F(3, 2), compat=EMPTY, want="x @ y")
add("nd.dot(x, y)", x=F(2, 0), y=F(0, 2), compat=EMPTY, want="x @ y")
for a, b, args in [((2, 3, 4), (2, 4, 5), ""), ((2, 4, 3), (2, 4, 5), ", transpose_a=True"), ((2, 3, 4), (2, 5, 4), ", transpose_b=True"),
                   ((2, 4, 3), (2, 5, 4), ", transpose_a=True, transpose_b=True")]:  # fmt: skip
    add(f"nd.batch_dot(x, y{args})", x=F(*a), y=F(*b))
    add(f"nd.linalg.gemm2(x, y{args})", x=F(*a), y=F(*b))
    add(f"nd.linalg_gemm2(x, y{args}, alpha=0.5)", x=F(*a), y=F(*b))
    add(f"nd.linalg.gemm(x, y, z{args}, alpha=2.0, beta=0.5)", x=F(*a), y=F(*b), z=F(2, 3, 5))
add("nd.batch_dot(x, y)", x=F(2, 3, 4, dtype="float64"), y=F(2, 4, 5, dtype="float64"))
add("nd.batch_dot(x, y)", x=F(2, 3, 4), y=F(3, 4, 5), raises=True)
add("nd.batch_dot(x, y)", x=F(3, 4), y=F(4, 5), raises=True)
add("nd.linalg.gemm2(x, y)", x=F(3, 4), y=F(4, 5))
add("nd.linalg.gemm2(x, y)", x=F(2, 2, 3, 4), y=F(2, 2, 4, 5))
add("nd.linalg.gemm2(x, y, axis=0)", x=F(3, 2, 4), y=F(4, 2, 5))
add("nd.linalg.gemm2(x, y, axis=1, transpose_b=True)", x=F(2, 3, 2, 4), y=F(2, 5, 2, 4))
add("nd.linalg.gemm2(x, y, alpha=3.0)", x=F(3, 4, dtype="float64"), y=F(4, 5, dtype="float64"))
add("nd.linalg.gemm(x, y, z)", x=F(3, 4), y=F(4, 5), z=F(3, 5))
add("nd.linalg.gemm(x, y, z, axis=0)", x=F(3, 2, 4), y=F(4, 2, 5), z=F(3, 2, 5))
add("nd.linalg.syrk(x, alpha=0.5)", x=F(3, 4))
add("nd.linalg.syrk(x, transpose=True)", x=F(2, 3, 4))

add("nd.sum(nd.sqrt(x), axis=1) * 2", x=P(3, 4))
add("nd.sum(x)", x=SPECIAL, tag="special", grad=False)
