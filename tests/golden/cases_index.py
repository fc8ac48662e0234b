"""Indexing and assignment: slices, steps, integer arrays, None, Ellipsis."""

from __future__ import annotations

from .op_cases import Cases, F, I

CASES = Cases()
add = CASES.add

BASIC = [
    "0", "1", "-1", ":", "1:3", "::2", "::-1", "3:0:-1", "-2:", ":-1", "1:1", "5:", "1:3, ::2", ":, 1", "..., 1", "1, ...", ":, 1:3", "1, 2",
    "-1, -1", "::2, ::-1", "None", "None, 1", ":, None", "..., None", "1, None, 2", "0, :, None, 1:", "(1, 2)", "slice(1, 3)", "slice(None)",
    "...", "()", "1:3, 2, 0", "0, ..., 1", ":, ::-2, 1:", "2:0:-1, 1, ::-1", "1:2, 1:2, 1:2",
]  # fmt: skip
ADVANCED = [
    "[0, 2]", "[0, 2, 0]", "[[0, 2], [1, 1]]", "np.array([0, 2])", "[0, 2], [1, 0]", "[0, 2], :, [1, 0]", ":, [0, 2]",
    "..., [0, 1]", "[0, 2], 1", "1, [0, 2]", "1:3, [0, 2]", "[0, 2], 1:", "[[0], [2]], [0, 1]", "nd.array([0, 2])", "nd.array([0, 2], dtype='int32')",
    "nd.array([1, 0]), nd.array([2, 0])", ":, nd.array([1, 0])", "None, [0, 2]", "1, :, [0, 1]", "[0, 1], ..., [1, 0]",
    "np.array([[0, 1], [2, 3]])", ":, [1, 0], [0, 1]", "np.int64(1)", "(0, 1), (1, 2)", "::2, [0, 1]", "[0], [1], [1]",
]  # fmt: skip
FLAGS = ["x > 0"]  # comparisons give numbers, so this picks rows 0 and 1, as in MXNet
BAD = ["9", "-5", "1, 2, 3, 4", "..., ...", "[0, 9], 1"]

for key in BASIC:
    add(f"x[{key}]", x=F(4, 3, 2), grad=key not in ("1:1", "5:"))
    add(f"x[{key}] = 5; x", x=F(4, 3, 2), trace=False, grad=False)
for key in ADVANCED:
    add(f"x[{key}]", x=F(4, 3, 4))
    add(f"x[{key}] = 5; x", x=F(4, 3, 4), trace=False, grad=False)
for key in FLAGS:
    add(f"x[{key}]", x=F(4), grad=False)
    add(f"x[{key}] = 5; x", x=F(4), trace=False, grad=False)
MASK = "MXNet allows boolean arrays as an index in its NumPy mode only"
MASKS = [
    "np.array([True, False, True, True])", "[True, False, True, True]", "nd.array([1, 0, 1, 1], dtype='bool')",
    "nd.array([0, 0, 0, 1], dtype='bool')",
]  # fmt: skip
for key in MASKS:
    plain = key.replace("nd.", "np.")
    add(f"x[{key}]", x=F(4), compat=MASK, want=f"x[{plain}]")
    add(f"x[{key}]", x=F(4, 3), compat=MASK, want=f"x[{plain}]")
    add(f"x[{key}] = 5; x", x=F(4, 3), trace=False, compat=MASK, want=f"y = x.copy(); y[{plain}] = 5; y")
KILLS = "kills MXNet"
add("x[np.array([-1, 0])]", x=F(4, 3), compat=KILLS, want="x[[-1, 0]]")
add(
    "x[np.array([-1, 0])] = 5; x",
    x=F(4, 3),
    trace=False,
    compat=KILLS,
    want="y = x.copy(); y[[-1, 0]] = 5; y",
)
add(
    "x[np.array(1)]",
    x=F(4, 3),
    trace=False,
    compat="MXNet fails on an index array without dimensions",
    want="x[1]",
)
add(
    "x[[0, 2], None]",
    x=F(4, 3),
    trace=False,
    compat="MXNet puts the new axis first, NumPy where it was asked for",
    want="x[[0, 2], None]",
)
for key in ["1.5", "'a'"]:
    add(f"x[{key}]", x=F(4, 3), raises=True, compat="IndexError, as for every Python sequence")
for key in BAD:
    add(f"x[{key}]", x=F(4, 3, 2), raises=True)
for key in ["0", "-1", "1:3", "::-1", "[0, 2]", "...", ":", "None", "2:0:-1", "np.array([2, 0])"]:
    add(f"x[{key}]", x=I(4))
    add(f"x[{key}]", x=F(4, dtype="float64"))
    add(f"x[{key}] = 7; x", x=I(4), trace=False)

# What is assigned: scalars, arrays, NumPy arrays, lists, with broadcasting and casting.
for code in [
    "x[1] = y[0]; x", "x[1:3] = y; x", "x[1:3] = y.asnumpy(); x", "x[1] = y.asnumpy()[0]; x", "x[:, 0] = 1; x", "x[:] = y[0]; x", "x[:] = 2.5; x",
    "x[::2] = y; x", "x[3:1:-1] = y; x", "x[[0, 3]] = y; x", "x[nd.array([0, 3])] = y; x", "x[1:3, 1:] = y[:, 1:]; x", "x[1, 1] = 9; x",
    "x[1:3] = [7, 8, 9]; x", "x[1] = [1, 2, 3]; x", "x[..., 0] = -1; x", "x[1:3] = y[:1]; x", "x[1:3] = y[:, :1]; x", "x[1] = y[0] * 2; x",
    "x[0] = x[1]; x", "x[:2] = x[2:]; x", "x[0:3] = x[1:4]; x", "x[[0, 1], [1, 2]] = nd.array([7, 8]); x", "x[[0, 0]] = y; x",
    "x[1:3] = y.astype('float64'); x", "x[1:3] = y.astype('int32'); x", "x[None, 1] = 3; x", "x[:] = x + 1; x", "x[()] = 4; x",
    "x[1] = np.float64(2); x", "x[np.array([0, 2]), 1:] = 0; x",
]:  # fmt: skip
    add(code, x=F(4, 3), y=F(2, 3), trace=False, grad=False)
add("x[1:3] = y; x", x=F(4, 3), y=F(3, 3), trace=False, raises=True)
add("x[9] = 1; x", x=F(4, 3), trace=False, raises=True)
add("x[0] = 'a'; x", x=F(4, 3), trace=False, raises=True, compat="says what cannot be assigned")
add("x[0] = 2.9; x", x=I(4), trace=False)
add("x[:2] = y; x", x=I(4), y=F(2), trace=False, grad=False)
add("x[0] = 300; x", x=I(4, dtype="uint8"), trace=False)

# A basic contiguous slice is a view, both ways.
for code in ["y = x[1]; y[:] = 0; x", "y = x[1:3]; y[0] = 7; x", "y = x[1:3]; x[1] = 7; y", "y = x[1, 2]; y[:] = 7; x", "y = x.reshape((3, 4)); y[0] = 7; x",
             "y = x[1:3][0]; y[:] = 7; x", "y = x[[0, 1]]; y[:] = 0; x", "y = x.T; y[:] = 0; x",
             "y = x[1]; x += 1; y", "y = x.reshape((-1,)); x[:] = 1; y", "y = x.expand_dims(0); y[:] = 0; x", "y = x[:]; y[0] = 7; x",
             "y = x.flatten(); y[:] = 0; x", "y = x.astype('float32'); y[:] = 0; x", "y = x.detach(); y[:] = 0; x", "y = x[None]; y[:] = 0; x",
             "y = x.slice_axis(axis=0, begin=0, end=1); y[:] = 0; x", "y = x[...]; y[:] = 3; x", "y = x.asnumpy(); y[:] = 0; x"]:  # fmt: skip
    add(code, x=F(4, 3), trace=False, grad=False)
VIEW = "every basic slice is a view; MXNet copies what is not contiguous"
add("y = x[::2]; y[:] = 0; x", x=F(4, 3), trace=False, compat=VIEW, want="y = x.copy(); y[::2] = 0; y")
add("y = x[:, 1]; y[:] = 0; x", x=F(4, 3), trace=False, compat=VIEW, want="y = x.copy(); y[:, 1] = 0; y")
add("x[1:3] * 2 + x[0]", x=F(4, 3))
add("x[0] * x[1]", x=F(4, 3))
add("nd.sum(x[:, 1] * x[::2][0][0])", x=F(4, 3))
add("nd.concat(x[:1], x[2:], dim=0)", x=F(4, 3))
