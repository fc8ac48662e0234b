"""Shape, movement, gathering and creation."""

from __future__ import annotations

import numpy as np

from .op_cases import EMPTY, Cases, F, I, V

CASES = Cases()
add = CASES.add

# reshape's special values, on (2, 3, 4) and (2, 3, 4, 5); with reverse they are read from the right.
for shape in ["(4, 6)", "(24,)", "(-1,)", "(0, -1)", "(0, 0, -1)", "(-1, 0)", "(4, -1, 2)", "(-2,)", "(0, -2)", "(2, -2)", "(-3, 4)",
              "(-3, 0)", "(0, -3)", "(-4, 1, 2, -2)", "(2, -4, -1, 3, -2)", "(-4, -1, 1, 0, 0)", "(-1, 4)", "(-2, 1, 1)",
              "(-3, -1)", "(0, -4, -1, 3, 0)", "(2, 12, 1)", "(6, 1, -1)", "-1"]:  # fmt: skip
    add(f"nd.reshape(x, shape={shape})", x=F(2, 3, 4))
for shape in ["(-3, -3)", "(0, 0, -3)", "(0, -3, 0)", "(0, 0, -4, 2, -1, 0)", "(-1, 0, 0)"]:
    add(f"nd.reshape(x, shape={shape})", x=F(2, 3, 4, 5))
for shape in ["(-1, 0)", "(0, -1)", "(-1, 0, 0)", "(-3, 0)", "(8, 3)", "(-1, 0, 2, 2)"]:
    add(f"nd.reshape(x, shape={shape}, reverse=True)", x=F(2, 3, 4))
add("nd.Reshape(x, shape=(3, 2))", x=F(2, 3))
add("nd.Reshape(data=x, shape='(3, 2)')", x=F(2, 3))
add("nd.reshape(x, shape=(-1, 3))", x=I(2, 3))
add("nd.reshape(x, shape=(1, -2))", x=F(2, 3), raises=True, compat="kills MXNet: elements are missing")
add("nd.reshape(x, shape=(-2, -3))", x=F(2, 3, 4), raises=True)
add(
    "nd.reshape(x, shape=(5, 2))",
    x=F(2, 3),
    raises=True,
    compat="MXNet returns memory that is not the array's",
)
add("nd.reshape(x, shape=(-1, -1))", x=F(2, 3), raises=True)
add("nd.reshape(x, shape=(4, -1))", x=F(2, 3), raises=True, compat="MXNet drops elements")
add("nd.reshape_like(x, y)", x=F(2, 6), y=F(3, 4), grad=("x",))
add(
    "nd.reshape_like(x, y, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)",
    x=F(6, 4),
    y=F(2, 3, 5),
    grad=("x",),
)
add(
    "nd.reshape_like(x, y, lhs_begin=1, lhs_end=None, rhs_begin=-2, rhs_end=None)",
    x=F(2, 12),
    y=F(7, 3, 4),
    grad=("x",),
)
add("nd.reshape_like(x, y)", x=F(2, 6), y=F(5), raises=True)

for axes in ["", "axes=(1, 0, 2)", "axes=(2, 0, 1)", "axes=(0, 2, 1)", "axes=()"]:
    inside = ", ".join(["x", axes] if axes else ["x"])
    add(f"nd.transpose({inside})", x=F(2, 3, 4))
add("nd.transpose(x)", x=I(2, 3))
add("nd.transpose(x)", x=F(4))
add("nd.transpose(x, axes=(0, 3, 1, 2))", x=F(2, 3, 4, 5))
add("nd.transpose(x, axes=(0, 0, 1))", x=F(2, 3, 4), raises=True, compat="MXNet reads a wrong diagonal")
add(
    "nd.transpose(x, axes=(-1, 0, 1))",
    x=F(2, 3, 4),
    compat="negative axes count from the end everywhere",
    want="x.transpose(-1, 0, 1)",
)
add("nd.transpose(x, axes=(0, 1))", x=F(2, 3, 4), raises=True)
add("nd.swapaxes(x, 0, 2)", x=F(2, 3, 4))
add("nd.swapaxes(x, dim1=1, dim2=-1)", x=F(2, 3, 4))
add("nd.SwapAxis(x, dim1=0, dim2=1)", x=F(2, 3))
for axis in [0, 1, 2, -1, -3]:
    add(f"nd.expand_dims(x, axis={axis})", x=F(2, 3))
add("nd.expand_dims(x, 1)", x=I(3))
add("nd.expand_dims(x, axis=4)", x=F(2, 3), raises=True)
for axis in ["", ", axis=0", ", axis=2", ", axis=(0, 2)", ", axis=-1", ", axis=(-1, 0)"]:
    add(f"nd.squeeze(x{axis})", x=F(1, 3, 1))
add("nd.squeeze(x, axis=1)", x=F(1, 3, 1), raises=True)
add("nd.squeeze(x)", x=F(1, 1))
add("nd.flatten(x)", x=F(2, 3, 4))
add("nd.Flatten(x)", x=F(3))
add("nd.flatten(x)", x=F(2, 3))
add("nd.moveaxis(x, 0, 2)", x=F(2, 3, 4))
add("nd.moveaxis(x, -1, 0)", x=F(2, 3, 4))

for args in ["begin=(0, 1), end=(2, 3)", "begin=(1,), end=(3,)", "begin=(None, 1), end=(None, None)", "begin=(-2, -3), end=(None, -1)",
             "begin=(0, 0), end=(3, 4), step=(2, 1)", "begin=(2, None), end=(0, None), step=(-1, None)",
             "begin=(None, None), end=(None, None), step=(-1, -2)", "begin=(0,), end=(100,)", "begin=1, end=2"]:  # fmt: skip
    add(f"nd.slice(x, {args})", x=F(3, 4))
add("nd.slice(x, begin=(0, 1), end=(2, 3))", x=I(3, 4))
add("nd.crop(x, begin=(0, 1), end=(2, 3))", x=F(3, 4))
add("nd.slice(x, begin=(1, 0, 2), end=(2, 3, 4))", x=F(2, 3, 4))
add("nd.slice(x, begin=(2,), end=(2,))", x=F(3, 4), compat=EMPTY, want="x[2:2]")
for args in ["axis=0, begin=1, end=3", "axis=1, begin=0, end=2", "axis=-1, begin=-3, end=-1", "axis=1, begin=1, end=None",
             "axis=0, begin=-2, end=None"]:  # fmt: skip
    add(f"nd.slice_axis(x, {args})", x=F(3, 4))
add("nd.slice_axis(x, axis=0, begin=3, end=1)", x=F(3, 4), raises=True)
add("nd.slice_axis(x, axis=0, begin=0, end=9)", x=F(3, 4), raises=True)
add("nd.slice_like(x, y)", x=F(3, 4), y=F(2, 3), grad=("x",))
add("nd.slice_like(x, y, axes=(0,))", x=F(3, 4), y=F(2, 9), grad=("x",))
add("nd.slice_like(x, y, axes=(-1, 0))", x=F(3, 4, 5), y=F(2, 9, 3), grad=("x",))
add("nd.slice_like(x, y)", x=F(3, 4), y=F(5, 3), raises=True)

add("nd.concat(x, y)", x=F(2, 3), y=F(2, 4))
add("nd.concat(x, y, dim=0)", x=F(2, 3), y=F(1, 3))
add("nd.concat(x, y, z, dim=-1)", x=F(2, 3), y=F(2, 1), z=F(2, 2))
add("nd.Concat(x, y, dim=2)", x=F(2, 3, 1), y=F(2, 3, 2))
add("nd.concat(*[x, y], dim=0)", x=I(3), y=I(2))
add("nd.concat(x, dim=0)", x=F(3))
add("nd.concat(x, x, dim=0)", x=F(3))
add("nd.concat(x, y, dim=0)", x=F(2, 3), y=F(2, 4), raises=True)
add("nd.concat(x, y, dim=0)", x=F(0, 3), y=F(2, 3), compat=EMPTY, want="y")
add(
    "nd.flip(x, axis=-1)",
    x=F(3, 4),
    compat="negative axes count from the end everywhere",
    want="np.flip(x, -1)",
)
add("nd.concatenate([x, y], axis=1)", x=F(2, 3), y=F(2, 4), grad=False)
add("nd.stack(x, y)", x=F(2, 3), y=F(2, 3))
add("nd.stack(x, y, axis=1)", x=F(2, 3), y=F(2, 3))
add("nd.stack(x, y, z, axis=-1)", x=F(2), y=F(2), z=F(2))
add("nd.stack(x, y)", x=F(2), y=F(3), raises=True)

for args in ["num_outputs=2", "num_outputs=3, axis=0", "num_outputs=4, axis=1", "num_outputs=4, axis=1, squeeze_axis=True",
             "num_outputs=2, axis=-1", "3, axis=0, squeeze_axis=1", "num_outputs=1"]:  # fmt: skip
    add(f"nd.split(x, {args})", x=F(3, 4, 2))
    if "=" in args.split(",")[0]:
        add(f"nd.SliceChannel(x, {args})", x=F(3, 4, 2))
add("nd.split(x, num_outputs=2, axis=0)[1]", x=F(4))
add("nd.split(x, num_outputs=3, axis=0)", x=F(4), raises=True)
for args in ["2", "(1, 3)", "2, axis=1", "(1,), axis=1", "(1, 2), axis=-1", "4, axis=0, squeeze_axis=True"]:
    add(f"nd.split_v2(x, {args})", x=F(4, 6))

for reps in ["(2,)", "(2, 3)", "(1, 2)", "(2, 1, 3)", "2", "()"]:
    add(f"nd.tile(x, reps={reps})", x=F(2, 3))
add("nd.tile(x, reps=(2, 2))", x=I(3))
for args in ["2", "repeats=2, axis=0", "repeats=3, axis=1", "repeats=2, axis=-1", "repeats=1"]:
    add(f"nd.repeat(x, {args})", x=F(2, 3))
width4, width5 = "(0, 0, 0, 0, 1, 2, 2, 1)", "(0, 0, 0, 0, 1, 0, 0, 1, 1, 1)"
for mode in ["'constant'", "'edge'", "'reflect'", "'constant', constant_value=3.5"]:
    add(f"nd.pad(x, pad_width={width4}, mode={mode})", x=F(1, 2, 3, 4))
    add(f"nd.pad(x, pad_width={width5}, mode={mode})", x=F(1, 2, 2, 3, 2))
add("nd.Pad(x, mode='edge', pad_width=(0, 0, 0, 0, 0, 0, 1, 1))", x=F(1, 1, 2, 2))
add(
    "nd.pad(x, mode='constant', pad_width=(1, 1))",
    x=F(3),
    compat="MXNet pads 4 and 5 dimensions only",
    want="np.pad(x, 1)",
)
for axis in ["0", "1", "(0, 1)"]:
    add(f"nd.flip(x, axis={axis})", x=F(3, 4))
    add(f"nd.reverse(x, axis={axis})", x=F(3, 4))
add("nd.broadcast_to(x, shape=(2, 3))", x=F(1, 3))
add("nd.broadcast_to(x, shape=(0, 3))", x=F(2, 1))
add("nd.broadcast_to(x, shape=(2, 3, 4))", x=F(2, 1, 4))
add("nd.broadcast_to(x, shape=(2, 3))", x=I(2, 1))
add("nd.broadcast_to(x, shape=(2, 5))", x=F(2, 3), raises=True)
add(
    "nd.broadcast_to(x, shape=(4, 2, 3))",
    x=F(2, 3),
    compat="dimensions may be added in front, as in NumPy",
    want="np.broadcast_to(x, (4, 2, 3))",
)
add("nd.broadcast_like(x, y)", x=F(1, 3), y=F(2, 3), grad=("x",))
add("nd.broadcast_like(x, y, lhs_axes=(0,), rhs_axes=(-1,))", x=F(1, 3), y=F(2, 5), grad=("x",))
add("nd.broadcast_like(x, y, lhs_axes=(0, 2), rhs_axes=(1, 0))", x=F(1, 3, 1), y=F(2, 5), grad=("x",))
add("nd.broadcast_axis(x, axis=1, size=3)", x=F(2, 1))
add("nd.broadcast_axis(x, axis=(0, 2), size=(2, 3))", x=F(1, 2, 1))
add("nd.broadcast_axes(x, axis=0, size=4)", x=F(1, 3))
add("nd.broadcast_axis(x, axis=0, size=4)", x=F(2, 3), raises=True)

add("nd.take(x, i)", x=F(4, 3), i=V(0, 2, 3), grad=("x",))
add("nd.take(x, i)", x=F(4, 3), i=V(1, 1, 3, 0, dtype="int32", shape=(2, 2)))
add("nd.take(x, i, axis=1)", x=F(4, 3), i=V(0, 2, dtype="int64"))
add("nd.take(x, i, axis=-1)", x=F(2, 4, 3), i=V(2, 0, shape=(1, 2)), grad=("x",))
add("nd.take(x, i, mode='clip')", x=F(4, 3), i=V(-1, 9, 2), grad=("x",))
add("nd.take(x, i, mode='wrap')", x=F(4, 3), i=V(-1, 9, 4), grad=("x",))
add("nd.take(x, i, axis=1, mode='wrap')", x=F(4, 3), i=V(-1, 5, 3), grad=("x",))
add("nd.take(x, i, mode='raise')", x=F(4, 3), i=V(1, 2), grad=False)
add("nd.take(x, i, mode='raise')", x=F(4, 3), i=V(1, 9), raises=True)
add("nd.take(x, i)", x=I(4), i=V(3, 0), grad=False)
add("nd.batch_take(x, i)", x=F(3, 4), i=V(0, 3, 1, dtype="int32"), grad=False)
for args in ["", ", axis=0", ", axis=-1, keepdims=True", ", mode='wrap'"]:
    add(f"nd.pick(x, i{args})", x=F(3, 3), i=V(0, 2, 1), grad=("x",))
add("nd.pick(x, i)", x=F(3, 4), i=V(-1, 9, 1), grad=("x",), tag="out of range")
add("nd.pick(x, i, mode='wrap')", x=F(3, 4), i=V(-1, 9, 1), grad=("x",), tag="out of range")
add("nd.pick(x, i, axis=1)", x=F(2, 3, 4), i=V(0, 1, 2, 0, 1, 2, 0, 1, shape=(2, 4), dtype="int32"))
add(
    "nd.pick(x, i, axis=1, keepdims=True)",
    x=F(2, 3, 4),
    i=V(0, 1, 2, 0, 1, 2, 0, 1, shape=(2, 1, 4)),
    grad=("x",),
)
add("nd.pick(x, i)", x=I(3, 4), i=V(0, 2, 1), grad=False)
add("nd.choose_element_0index(x, i)", x=F(3, 4), i=V(0, 2, 1), grad=("x",))
for args in [
    "3",
    "depth=3",
    "depth=4, on_value=2.0, off_value=-1.0",
    "3, dtype='int32'",
    "3, dtype='float64'",
]:
    add(f"nd.one_hot(i, {args})", i=V(0, 2, 1), grad=False)
add("nd.one_hot(i, 3)", i=V(0, 2, 1, 1, shape=(2, 2), dtype="int32"))
add("nd.one_hot(i, 3)", i=V(-1, 3, 1), tag="out of range", grad=False)
add("nd.gather_nd(x, i)", x=F(3, 4), i=V(0, 2, 1, 1, 0, 3, shape=(2, 3)), grad=("x",))
add("nd.gather_nd(x, i)", x=F(3, 4), i=V(0, 2, 2, shape=(1, 3), dtype="int32"))
add("nd.gather_nd(x, i)", x=F(2, 3, 4), i=V(0, 1, 2, 0, shape=(2, 2)), grad=("x",))
add(
    "nd.gather_nd(x, i)",
    x=F(3, 4),
    i=V(-1, -2, 1, -4, shape=(2, 2), dtype="int64"),
    tag="negative",
    no_grad="MXNet loses it",
)
add("nd.scatter_nd(x, i, shape=(3, 4))", x=F(3), i=V(0, 2, 1, 1, 0, 3, shape=(2, 3)), grad=("x",))
add("nd.scatter_nd(x, i, shape=(3, 2))", x=F(2, 2), i=V(2, 0, shape=(1, 2), dtype="int32"))
add("nd.where(c, x, y)", c=V(1, 0, 2, 0, 1, -1, shape=(2, 3)), x=F(2, 3), y=F(2, 3), grad=("x", "y"))
add("nd.where(c, x, y)", c=V(1, 0, dtype="int32"), x=F(2, 3), y=F(2, 3))
add("nd.where(c, x, y)", c=V(1, 0, 1), x=I(3), y=I(3), grad=False)
add("nd.where(x > y, x, y)", x=F(2, 3), y=F(2, 3))
add("nd.where(c, x, y)", c=V(np.nan, 0, 1), x=F(3), y=F(3), grad=("x", "y"), tag="nan")
add("nd.where(c, x, y)", c=V(1, 0), x=F(3), y=F(3), raises=True)
add("nd.depth_to_space(x, 2)", x=F(1, 8, 2, 3))
add("nd.depth_to_space(x, block_size=2)", x=F(2, 4, 1, 1))
add("nd.space_to_depth(x, 2)", x=F(1, 2, 4, 6))
add("nd.space_to_depth(x, 3)", x=F(1, 1, 4, 6), raises=True)
for args in ["", "k=1", "k=-1", "k=2"]:
    inside = ", ".join(["x", args] if args else ["x"])
    add(f"nd.diag({inside})", x=F(3, 4))
    add(f"nd.diag({inside})", x=F(3))
add("nd.diag(x, axis1=0, axis2=2)", x=F(2, 3, 4))
add("nd.diag(x, k=1, axis1=-1, axis2=-2)", x=F(2, 3, 4))

# Creation.
CREATE = [
    "nd.zeros((2, 3))", "nd.zeros(3)", "nd.zeros(shape=(2,), dtype='int32')", "nd.ones((2, 3))", "nd.ones(3, dtype='float64')",
    "nd.ones((2, 2), dtype='float16')", "nd.full((2, 3), 7)", "nd.full((2,), 2.5)", "nd.full((2,), 2.5, dtype='int32')",
    "nd.full(3, -1, dtype='float64')", "nd.empty((2, 3)).shape", "nd.arange(5)", "nd.arange(2, 8)", "nd.arange(2, 8, 2.5)",
    "nd.arange(8, 2, -2)", "nd.arange(3, repeat=2)", "nd.arange(0, 1, 0.25, dtype='float64')", "nd.arange(5, dtype='int32')",
    "nd.arange(0.5, 3)", "nd.linspace(0, 1, 5)", "nd.linspace(0, 1, 5, endpoint=False)", "nd.linspace(-2, 2, 4, dtype='float64')",
    "nd.linspace(3, 1, 1)", "nd.eye(3)", "nd.eye(3, 4)", "nd.eye(3, 4, 1)", "nd.eye(3, M=2, k=-1)", "nd.eye(2, dtype='int32')",
    "nd.array([1, 2, 3])", "nd.array([[1, 2], [3, 4]])", "nd.array([1, 2], dtype='int32')", "nd.array(np.arange(3))",
    "nd.array(np.arange(3), dtype='int64')", "nd.array(np.float64([1.5]))", "nd.array(np.zeros((0, 2)))", "nd.array(nd.arange(3))",
    "nd.array(nd.arange(3, dtype='int32'))", "nd.array((1, 2.5))", "nd.array(np.array([True, False]))",
    "nd.array(np.array([1, 2], dtype='int8'))", "nd.array([True, False], dtype='bool')",
    "nd.array(np.array([1, 2], dtype='float16'))", "nd.array(2.5)", "nd.array([1, 200], dtype='uint8')", "nd.array([])",
    "nd.array([1, 2], ctx=mx.cpu(0))", "nd.zeros((2,), ctx=mx.cpu())", "nd.ones((2,), mx.cpu(), 'int32')",
]  # fmt: skip
add("nd.zeros((0, 3))", compat=EMPTY, want="np.zeros((0, 3), 'float32')")
add("nd.ones((2, 0)).shape", trace=False, compat=EMPTY, want="repr((2, 0))")
for code in CREATE:
    add(code, trace=False)
add("nd.array([[1, 2], [3]])", raises=True)
add("nd.zeros((-1, 2)).asnumpy()", trace=False, raises=True)
for name in ["zeros", "ones"]:
    add(f"x + nd.{name}((2, 3))", x=F(2, 3))
add("x + nd.arange(3)", x=F(3))
add("x * nd.full((3,), 2.0)", x=F(3))
add("nd.contrib.arange_like(x)", x=F(2, 3), grad=False)
add("nd.contrib.arange_like(x, axis=1)", x=F(2, 3), grad=False)
