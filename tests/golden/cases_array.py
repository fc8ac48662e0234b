"""Methods and properties of the array, and in-place operators."""

from __future__ import annotations

from .op_cases import Cases, F, I, P, V

CASES = Cases()
add = CASES.add

UNARY = ["abs", "sign", "square", "cbrt", "exp", "expm1", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh",
         "degrees", "radians", "sigmoid", "relu", "round", "rint", "fix", "trunc", "floor", "ceil", "zeros_like", "ones_like",
         "flatten", "softmax", "log_softmax", "softmin", "sum", "mean", "prod", "nansum", "nanprod", "max", "min", "norm",
         "transpose", "squeeze", "copy", "detach"]  # fmt: skip
for name in UNARY:
    add(f"x.{name}()", x=F(2, 3), trace=name not in ("copy", "detach"), grad=name not in ("copy", "detach"))
for name in ["sqrt", "rsqrt", "rcbrt", "log", "log2", "log10", "log1p", "reciprocal"]:
    add(f"x.{name}()", x=P(2, 3))
for name in ["arcsin", "arccos", "arctanh"]:
    add(f"x.{name}()", x=F(2, 3, lo=-0.9, hi=0.9))
add("x.arccosh()", x=P(2, 3, lo=1.1))
for name in ["argmax", "argmin", "argsort", "topk", "shape_array", "size_array", "argmax_channel"]:
    add(f"x.{name}()", x=F(2, 3), grad=False)

for code in [
    "x.sum(axis=0)", "x.sum(axis=(0, 1), keepdims=True)", "x.mean(axis=1)", "x.max(axis=-1)", "x.min(axis=0, keepdims=True)",
    "x.prod(axis=1)", "x.norm(ord=1, axis=1)", "x.sum(1)", "x.mean(axis=0, exclude=True)",
    "x.reshape(3, 2)", "x.reshape((3, 2))", "x.reshape(-1)", "x.reshape((0, -1))", "x.reshape(shape=(3, 2))", "x.reshape((-1, 2))",
    "x.reshape((-3,))", "x.reshape(6, 1)", "x.reshape((-1, 0), reverse=True)", "x.reshape([3, 2])",
    "x.transpose((1, 0))", "x.transpose(axes=(1, 0))", "x.T", "x.swapaxes(0, 1)", "x.swapaxes(dim1=0, dim2=1)",
    "x.expand_dims(1)", "x.expand_dims(axis=0)", "x.clip(-1, 1)", "x.clip(a_min=0, a_max=1)", "x.flip(axis=0)", "x.flip(0)",
    "x.tile((2, 1))", "x.tile(reps=(1, 2))", "x.repeat(2)", "x.repeat(repeats=2, axis=1)", "x.softmax(axis=0)", "x.log_softmax(axis=0)",
    "x.slice(begin=(0, 1), end=(2, 3))", "x.slice((0, 1), (2, 3))", "x.slice_axis(axis=1, begin=0, end=2)", "x.slice_axis(1, 0, 2)",
    "x.split(num_outputs=3, axis=1)", "x.split(3, axis=1, squeeze_axis=True)", "x.sort(axis=0)",
    "x.broadcast_to((2, 3))", "x.diag()", "x.diag(k=1)", "x.squeeze()", "x.norm()",
]:  # fmt: skip
    add(code, x=F(2, 3))
for code in ["x.argmax(axis=1)", "x.argmin(axis=0, keepdims=True)", "x.argsort(axis=0)", "x.argsort(is_ascend=False)", "x.topk(k=2)",
             "x.topk(axis=0, k=1, ret_typ='both')", "x.argmax(1)"]:  # fmt: skip
    add(code, x=F(2, 3), grad=False)
add("x.squeeze(axis=0)", x=F(1, 3))
add("x.broadcast_to((4, 3))", x=F(1, 3))
add("x.broadcast_axes(axis=0, size=2)", x=F(1, 3))
add("x.broadcast_like(y)", x=F(1, 3), y=F(2, 3), grad=("x",))
add("x.reshape_like(y)", x=F(2, 3), y=F(3, 2), grad=("x",))
add("x.slice_like(y)", x=F(2, 3), y=F(1, 2), grad=("x",))
add("x.slice_like(y, axes=(1,))", x=F(2, 3), y=F(1, 2), grad=("x",))
add("x.take(i)", x=F(4, 3), i=V(0, 2), grad=("x",))
add("x.take(i, axis=1, mode='wrap')", x=F(4, 3), i=V(0, -1), grad=("x",))
add("x.pick(i)", x=F(2, 3), i=V(0, 2), grad=("x",))
add("x.pick(i, axis=0, keepdims=True)", x=F(2, 3), i=V(0, 1, 0), grad=("x",))
add("i.one_hot(4)", i=V(0, 2), grad=False)
add("i.one_hot(depth=3, on_value=5, off_value=1)", i=V(0, 2), grad=False)
add("x.pad(mode='edge', pad_width=(0, 0, 0, 0, 1, 1, 1, 1))", x=F(1, 1, 2, 2))
add("x.depth_to_space(2)", x=F(1, 4, 2, 2))
add("x.space_to_depth(2)", x=F(1, 1, 4, 2))
add("x.split_v2(2, axis=0)", x=F(4, 2), trace=False)
add("x.tile(2)", x=F(3))
add("x.sum().sqrt()", x=P(2, 3))
add("x.reshape((2, -1)).transpose().sum(axis=0)", x=F(2, 3, 2))

for code in ["x.shape", "x.size", "x.ndim", "len(x)", "str(np.dtype(x.dtype))", "x.asnumpy()", "x.stype", "str(x.context)", "str(x.ctx)",
             "[r.asnumpy() for r in x][1]", "x.asnumpy().flags.writeable", "str(x)", "repr(x.astype('int32'))"]:  # fmt: skip
    add(code, x=F(2, 3), grad=False, trace=False)
for dtype in ["float16", "float64", "int32", "int64", "uint8", "int8", "bool"]:
    add(f"x.astype('{dtype}')", x=V(0, 1.7, 2.2, 100), grad=False)
    add(
        f"x.astype(np.{dtype if dtype != 'bool' else 'bool_'})",
        x=V(0, 1.7, 2.2, 100),
        grad=False,
        trace=False,
    )
    add("x.astype('float32')", x=V(0, 1, 1, 0, dtype=dtype), grad=False)
add("x.astype('float32', copy=False) is x", x=F(2), grad=False, trace=False)
add("x.astype('float64') * 2", x=F(2, 3))
for code in ["x.asscalar()", "bool(x)", "x.asnumpy().item()"]:
    add(code, x=V(2.7), grad=False, trace=False)
    add(code, x=V(3, dtype="int32"), grad=False, trace=False)
add("bool(x)", x=V(0.0), grad=False, trace=False)
add("bool(x)", x=F(2), trace=False, raises=True)
add("x.asscalar()", x=F(2), trace=False, raises=True)
add("float(x)", x=F(2), trace=False, raises=True, compat="MXNet has no float(array)")
for code in ["float(x)", "int(x)"]:
    add(
        code,
        x=V(2.75),
        trace=False,
        compat="an array of one element is a number where Python asks for one",
        want=code.replace("x", "x[0]"),
    )
add("x.copyto(y); y", x=F(2, 3), y=F(2, 3), trace=False, grad=False)
add("x.copyto(y); y", x=F(2, 3), y=F(2, 3, dtype="float64"), trace=False, grad=False)
add("x.copyto(mx.cpu())", x=F(2, 3), trace=False, grad=False)
add("x.as_in_context(mx.cpu()) is x", x=F(2, 3), trace=False, grad=False)
add("y = x.copy(); y[:] = 0; x", x=F(2, 3), trace=False, grad=False)
add("x.wait_to_read(); nd.waitall(); x", x=F(2), trace=False, grad=False)
add("x.attach_grad(); x.grad", x=F(2, 3), trace=False, grad=False)
for code in ["x.sort()", "x.sort(is_ascend=False)"]:
    add(code, x=F(2, 3), no_grad="MXNet fails on its own default axis")
add(
    "x.transpose(1, 0)",
    x=F(2, 3),
    compat="axes may be given one by one, as in NumPy and as in reshape",
    want="x.T",
)
add("nd.sum(x, axis=1, out=y); y", x=F(2, 3), y=F(2), trace=False, grad=False)
add("nd.elemwise_add(x, x, out=y); y", x=F(2, 3), y=F(2, 3), trace=False, grad=False)
add("nd.exp(x, out=x); x", x=F(2, 3), trace=False, grad=False)
add(
    "nd.zeros((2,), out=None) if False else nd.broadcast_add(x, y, out=z); z",
    x=F(2, 1),
    y=F(1, 2),
    z=F(2, 2),
    trace=False,
    grad=False,
)
add("nd.split(x, 2, axis=0, out=[y, z]); [y, z]", x=F(2, 3), y=F(1, 3), z=F(1, 3), trace=False, grad=False)

# In-place operators write into the same buffer; views see it.
for op in ["+=", "-=", "*=", "/=", "%="]:
    add(f"x {op} y; x", x=P(2, 3), y=P(2, 3), trace=False, grad=False)
    add(f"x {op} y; x", x=P(2, 3), y=P(1, 3), trace=False, grad=False)
    add(f"x {op} 2; x", x=P(2, 3), trace=False, grad=False)
    add(f"x {op} 3; x", x=I(5), trace=False, grad=False)
    add(f"y = x; y {op} 2; x", x=P(2, 3), trace=False, grad=False)
    add(f"y = x[1]; y {op} 2; x", x=P(2, 3), trace=False, grad=False)
    add(f"x[1] {op} 2; x", x=P(2, 3), trace=False, grad=False)
    add(f"x[:, 1] {op} 2; x", x=P(2, 3), trace=False, grad=False)
add("x **= 2; x", x=F(3), trace=False, grad=False)
add("x += y; x", x=F(3), y=F(2, 3), trace=False, raises=True)
add("x += y; x", x=F(3), y=F(3, dtype="float64"), trace=False, raises=True)
add("x += x; x", x=F(2, 3), trace=False, grad=False)
