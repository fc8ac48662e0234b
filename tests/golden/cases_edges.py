"""Edges: derivatives at kinks and poles, bools, overflow, attributes as text, odd index and axis types, aliasing."""

from __future__ import annotations

from .op_cases import EMPTY, SPECIAL, Cases, F, I, P, V

CASES = Cases(tag="edge")
add = CASES.add

# Derivatives where a function has a kink, a pole, or no slope.
POINTS = V(0.0, 1.0, -1.0, 2.0, -2.0)
for name in ["abs", "sign", "relu", "sqrt", "cbrt", "rsqrt", "rcbrt", "reciprocal", "square", "log", "arcsin", "arccos", "arctanh", "arccosh",
             "softsign", "sigmoid", "tanh", "erfinv", "exp", "log1p", "round", "floor", "ceil", "trunc", "fix", "rint", "hard_sigmoid"]:  # fmt: skip
    add(f"nd.{name}(x)", x=POINTS, tag="kinks")
for y in [0, 1, 2, 3, -1, 0.5, -0.5, 1.5]:
    add(f"x ** {y}", x=V(0.0, 1.0, 2.0, 0.25), tag="kinks")
    add(f"{y} ** x", x=V(0.0, 1.0, 2.0, -1.0), tag="kinks")
add("x ** y", x=V(0.0, 1.0, 2.0, 3.0), y=V(1.0, 0.0, -1.0, 2.0), tag="kinks")
add("nd.broadcast_hypot(x, y)", x=V(0.0, 3.0), y=V(0.0, 4.0), tag="kinks")
add("nd.norm(x)", x=V(0.0, 0.0), tag="kinks")
add("nd.norm(x, axis=1)", x=V(0.0, 0.0, 3.0, 4.0, shape=(2, 2)), tag="kinks")
add("nd.norm(x, ord=1, axis=1)", x=V(0.0, 0.0, 3.0, -4.0, shape=(2, 2)), tag="kinks")
add("nd.prod(x)", x=V(0.0, 2.0, 3.0), tag="kinks")
add("nd.max(x)", x=V(0.0, 0.0, 0.0), tag="kinks")
add("nd.min(x, axis=0)", x=V(1.0, 1.0, 2.0, 1.0, 1.0, 0.0, shape=(2, 3)), tag="kinks")
add("nd.clip(x, 0, 1)", x=V(0.0, 1.0, 0.5, -1.0, 2.0), tag="kinks")
add("nd.broadcast_mod(x, y)", x=V(5.5, -5.5, 5.5, -5.5), y=V(2.0, 2.0, -2.0, -2.0), tag="kinks")
add("x / y", x=V(0.0, 1.0, -1.0), y=V(0.0, 0.0, 0.0), tag="kinks")
add("nd.where(x > 0, nd.sqrt(x), nd.zeros_like(x))", x=V(0.0, 4.0, -4.0), tag="kinks", grad=False)
add("nd.topk(x, k=2, ret_typ='value')", x=V(1.0, 1.0, 1.0), tag="kinks")
for act in ["relu", "softrelu", "softsign"]:
    add(f"nd.Activation(x, act_type='{act}')", x=POINTS, tag="kinks")
for act in ["leaky", "elu", "gelu"]:
    add(f"nd.LeakyReLU(x, act_type='{act}')", x=POINTS, tag="kinks")
add("nd.LeakyReLU(x, g, act_type='prelu')", x=V(0.0, 1.0, -1.0, shape=(1, 3)), g=V(0.25), tag="kinks")

# Bools, and integers at the ends of their range.
flags, others = V(1, 0, 1, 0, dtype="bool"), V(1, 1, 0, 0, dtype="bool")
for code in ["b.astype('float32') + c.astype('float32')", "nd.stack(b, c)", "b[1:3]", "b[0]", "nd.cast(b, 'int32') - nd.cast(c, 'int32')",
             "b.reshape((2, 2))", "nd.tile(b, 2)"]:  # fmt: skip
    add(code, b=flags, c=others, trace="[" not in code)
BOOLS = "MXNet stores bools and computes with none"
for code, want in [("b == c", "b == c"), ("b != c", "b != c"), ("nd.broadcast_logical_and(b, c)", "b & c"), ("nd.broadcast_logical_or(b, c)", "b | c"),
                   ("nd.broadcast_logical_xor(b, c)", "b ^ c"), ("nd.logical_not(b)", "~b"), ("nd.concat(b, c, dim=0)", "np.concatenate([b, c])")]:  # fmt: skip
    add(code, b=flags, c=others, compat=BOOLS, want=want)
add("nd.sum(b)", b=flags)
add("nd.where(b, x, x + 1)", b=flags, x=F(4), compat=BOOLS, want="np.where(b, x, x + 1)")
add("x + 1", x=V(2147483647, -2147483648, dtype="int32"))
add("x * 2", x=V(2147483647, -2147483648, dtype="int32"))
add("-x", x=V(-128, 127, dtype="int8"))
add("x + 1", x=V(255, 0, dtype="uint8"))
add("x - 1", x=V(255, 0, dtype="uint8"))
add("x + 1", x=V(2**60 + 1, -(2**60), dtype="int64"))
add("nd.sum(x)", x=V(2**53, 1, 1, dtype="int64"))
add("nd.sum(x)", x=V(100, 100, 100, dtype="int8"))
add("nd.mean(x)", x=V(1, 2, 4, dtype="int32"))
add("nd.prod(x)", x=V(100, 100, 100, dtype="int8"))
add("x / y", x=V(-7, 7, -7, 7, dtype="int32"), y=V(2, -2, -2, 2, dtype="int32"))
add("x / 2", x=V(-7, 7, -1, 1, dtype="int64"))
add("7 / x", x=V(2, -2, 3, -4, dtype="int32"))
add("x % y", x=V(7, 255, 100, dtype="uint8"), y=V(2, 7, 101, dtype="uint8"))
add("x ** 2", x=V(-3, 3, 100, dtype="int8"), grad=False)
add("nd.exp(x)", x=V(12, 11, -20, dtype="float16"), rtol=5e-3)
add("x * x", x=V(300, 200, 1e-4, dtype="float16"), rtol=5e-3)
add("nd.sum(x)", x=V(*([0.1] * 50), dtype="float16"), rtol=1e-2)
add(
    "nd.mean(x)",
    x=V(60000, 60000, dtype="float16"),
    compat="the sum is kept in more digits than it is returned in",
    want="np.full(1, 60000.0)",
    rtol=5e-3,
)
add("nd.softmax(x)", x=V(20, 10, 0, dtype="float16"), rtol=5e-3, atol=1e-3)
add("nd.maximum(x, y)", x=I(5), y=I(5))
add("nd.broadcast_maximum(x, y)", x=I(5, dtype="int64"), y=I(5, dtype="int64"))
for name in ["max", "min", "sum", "prod", "mean"]:
    add(f"nd.{name}(x, axis=0)", x=I(3, 2, hi=5, dtype="uint8"))
    add(f"nd.{name}(x, axis=1, keepdims=True)", x=I(3, 2, hi=5, dtype="int8"))

# Attributes as text and as NumPy numbers, as Gluon's saved graphs and users' code give them.
for code in ["nd.sum(x, axis='1')", "nd.sum(x, axis='(0, 1)', keepdims='True')", "nd.sum(x, axis='[0]')", "nd.reshape(x, shape='(-1, 2)')",
             "nd.transpose(x, axes='(1, 0)')", "nd.clip(x, a_min='-1', a_max='1.0')", "nd.expand_dims(x, axis='0')", "nd.softmax(x, axis='0')",
             "nd.slice_axis(x, axis='1', begin='0', end='None')", "nd.slice(x, begin='(0, None)', end='(1, None)')", "nd.norm(x, ord='1')",
             "nd.tile(x, reps='(1, 2)')", "nd.repeat(x, repeats='2', axis='1')", "nd.split(x, num_outputs='2', axis='0', squeeze_axis='1')",
             "nd.sum(x, axis=np.int64(1))", "nd.sum(x, axis=[np.int32(0), 1])", "nd.reshape(x, shape=[3, -1])", "nd.reshape(x, shape=np.array([3, 2]).tolist())",
             "nd.sum(x, axis=1, keepdims=1)", "nd.sum(x, axis=1, keepdims=0)", "nd.mean(x, axis=1, exclude='true')", "nd.transpose(x, axes=[1, 0])",
             "nd.sum(x, axis=None)", "nd.softmax(x, temperature=None)", "nd.cast(x, dtype=np.float64)", "nd.cast(x, dtype=np.dtype('int32'))",
             "nd.swapaxes(x, '0', '1')", "nd.flip(x, axis='1')", "nd.zeros_like(x, name='z')", "nd.sum(data=x, axis=1, name='s')",
             "nd.LeakyReLU(data=x, act_type='leaky', slope='0.5')", "nd.Activation(x, 'tanh')", "nd.Dropout(x, p='0.5')", "nd.smooth_l1(x, scalar='2')",
             "nd.concat(x, x, dim='0')", "nd.stack(x, x, axis='1')", "nd.stack(x, x, axis=np.int64(0))", "nd.sum(x, (0, 1))", "nd.squeeze(x, axis=None)"]:  # fmt: skip
    add(code, x=F(2, 3), grad=False if "cast" in code else None)
add("nd.one_hot(i, depth='3', on_value='2')", i=V(0, 2), grad=False)
add("nd.topk(x, k='2', ret_typ='value', is_ascend='1')", x=F(2, 3))
add("nd.dot(x, y, transpose_b='True')", x=F(2, 3), y=F(4, 3))
add("nd.FullyConnected(x, w, b, num_hidden='2', no_bias='False')", x=F(2, 3), w=F(2, 3), b=F(2))
BAD = ["nd.sum(x, axis='a')", "nd.softmax(x, axis=1.5)", "nd.reshape(x)", "nd.clip(x, a_min=1)", "nd.expand_dims(x)",
       "nd.cast(x)", "nd.sum()", "nd.Activation(x, act_type=3)", "nd.tile(x)", "nd.one_hot(x)", "nd.split(x)",
       "nd.topk(x, ret_typ='values')", "nd.transpose(x, axes=(0, 5))", "nd.slice_axis(x, axis=5, begin=0, end=1)", "nd.swapaxes(x, 0, 7)",
       "nd.concat(x, x, dim=4)", "nd.stack(x, x, axis=9)", "nd.flip(x, axis=4)", "nd.repeat(x)", "nd.take(x, nd.array([0]), axis=7)",
       "nd.dot(x)", "nd.broadcast_add(x)", "nd.Dropout(x, p=-1)", "nd.Dropout(x, mode='never')", "nd.norm(x, ord=0)", "nd.squeeze(x, axis=0)",
       "nd.Embedding(x, x, output_dim=3)", "nd.LayerNorm(x)", "nd.nonsense(x)", "x.nonsense()"]  # fmt: skip
for code in BAD:
    add(code, x=F(2, 3), raises=True)

# Indices of every integer type, and of none.
for dtype in ["uint8", "int8", "int32", "int64", "float16", "float32", "float64"]:
    at = V(2, 0, 1, dtype=dtype)
    add("nd.take(x, i)", x=F(3, 2), i=at, grad=("x",))
    add("nd.pick(x, i)", x=F(3, 3), i=at, grad=("x",))
    add("nd.Embedding(i, x, input_dim=3, output_dim=2)", x=F(3, 2), i=at, grad=("x",))
    add("nd.one_hot(i, 3)", i=at, grad=False)
add("nd.take(x, i)", x=F(3, 2), i=V(0.9, 1.5, 1.99), grad=("x",), tag="fractions")
add("nd.take(x, i)", x=F(3, 2), i=V(2), grad=("x",), tag="one")
add("nd.take(x, i)", x=F(3), i=V(2, 2, 2, 0), grad=("x",), tag="repeated")
add(
    "nd.Embedding(i, x, input_dim=3, output_dim=2)",
    x=F(3, 2),
    i=V(1, 1, 1, 2, 1, 1, shape=(3, 2)),
    grad=("x",),
    tag="repeated",
)
add("nd.gather_nd(x, i)", x=F(3, 2), i=V(1, 1, 1, 0, 0, 0, shape=(2, 3)), grad=("x",), tag="repeated")
add("nd.scatter_nd(x, i, shape=(3,))", x=F(3), i=V(1, 2, 0, shape=(1, 3)), grad=("x",), tag="all")

# Inputs that are views, and arrays that appear twice.
for code in ["nd.sum(x.T, axis=0)", "nd.dot(x.T, x)", "nd.reshape(x.T, shape=(-1,))", "x.T + x.T", "nd.softmax(x.T)", "nd.concat(x.T, x.T, dim=0)",
             "nd.dot(x, x, transpose_b=True)", "x * x * x", "x - x", "x / x", "nd.broadcast_maximum(x, x)", "nd.where(x > 0, x, x)",
             "nd.flip(nd.flip(x, axis=0), axis=1)", "nd.transpose(nd.transpose(x))", "nd.exp(nd.log(nd.abs(x)))", "nd.stack(x, x, x)"]:  # fmt: skip
    add(code, x=F(3, 4), tag="alias")
for code in ["nd.sum(x[::2])", "nd.exp(x[:, 1])", "nd.dot(x[:, :2], y)", "nd.softmax(x[::-1])", "nd.reshape(x[:, 1:3], shape=(-1,))", "x[1:] - x[:-1]",
             "nd.concat(x[:, :1], x[:, 1:], dim=1)", "nd.transpose(x[::2, ::2])", "x[0] * x[1] + x[2]", "nd.sum(x[1:, 1:] * x[:-1, :-1])"]:  # fmt: skip
    add(code, x=F(4, 3), y=F(2, 3), trace=False, tag="views", grad=("x",))
for code in ["nd.broadcast_add(x, x, out=x); x", "y = x[1:3]; y += y; x", "y = x[1]; y *= x[0]; x",
             "x[0] += x[1]; x", "x[::2] *= 2; x", "x[[0, 0]] += 1; x", "x[[0, 2]] += x[[1, 3]]; x", "x[-1] = x[0]; x[0] = 1; x",
             "x[:, 0] = x[:, 1]; x", "x[:2] = x[:2] * 2; x", "x[1:3][0] = 9; x", "x[0][1] = 9; x", "x[1:3, 1] += 1; x",
             "x[nd.array([1, 2])] *= 0; x", "x[x.shape[0] - 1] = 0; x", "x[..., :2] = 0; x", "x[1:1] = 5; x", "x[None] = 5; x", "x[:, None, 0] = 5; x",
             "x[0] = nd.array([5]); x", "x[:] = nd.array([5]); x", "x[1] = (1, 2, 3); x", "x[1, :] = np.arange(3); x", "x[:2] = np.ones((2, 3), 'float64'); x",
             "x[1] = True; x", "x[0, 0] = nd.array([7]); x", "x[0, 0] = x[1, 1]; x", "x[[0, 1]] = np.array([[1, 2, 3], [4, 5, 6]]); x", "x[[1], :2] = 8; x"]:  # fmt: skip
    add(code, x=F(4, 3), trace=False, grad=False, tag="writes")
for key in ["-1, ..., None", "-1:-3:-1", "100:", ":100", "-100:2", "::3, 1::2, ::-3", "1:, -1", "..., -1, :", "0, 0, 0, 0", "0, 0, 0", "None, None, 0",
            "0, None, ..., None", "np.array([0, 1], dtype='int32')", "nd.array([1.0])", "np.int32(-1)", "[-1, -2]", "[[-1], [0]]", "(0,)", "([0, 1],)",
            "[0, 1], [1, 1], [0, 1]", "[0, 1], 1:3, [0, 1]", "0, [1, 2], [0, 1]", "[0, 1], 0, :, [0, 2]", ":, [0, 1], 1:, 0", "slice(None, None, 2), 1"]:  # fmt: skip
    add(f"x[{key}]", x=F(2, 3, 4, 3), grad=False)
add("x[1, 1:1]", x=F(2, 3, 4), compat=EMPTY, want="x[1, 1:1]")
add("nd.diag(x, k=9)", x=F(2, 3), raises=True)
VIEW = "every basic slice is a view, and what is read is read before it is written"
add(
    "y = x[:, 1]; nd.exp(y, out=y); x",
    x=F(4, 3),
    trace=False,
    compat=VIEW,
    want="y = x.copy(); y[:, 1] = np.exp(x[:, 1]); y",
)
add("x[1:] -= x[:-1]; x", x=F(4, 3), trace=False, compat=VIEW, want="np.concatenate([x[:1], x[1:] - x[:-1]])")
add("x[::-1] = x; x", x=F(4, 3), trace=False, compat=VIEW, want="x[::-1]")
add("x[[True, False]]", x=F(2, 3), compat="MXNet reads a list of bools as numbers", want="x[:1]")
for code in ["nd.sum(x, axes=1)", "nd.sum(x, nonsense=1)", "nd.where(x, x)"]:
    add(code, x=F(2, 3), raises=True, compat="TypeError, as for every Python function")
add("x[2]", x=F(5))
add("x[0:0]", x=F(5), grad=False)
add("[v.asscalar() for v in x][2]", x=F(5), trace=False, grad=False)
add("x.sum().asscalar()", x=F(3, 4), trace=False, grad=False)
add("x == x", x=SPECIAL, tag="self")
add("nd.array(x.asnumpy()[::2])", x=F(6), trace=False, grad=False)
add("nd.array(x.asnumpy().T)", x=F(2, 3), trace=False, grad=False)
add("nd.array(x, dtype='float64')", x=F(3), trace=False, grad=False)
add("nd.sum(x) + nd.mean(x) * nd.max(x)", x=P(3, 4))
add("(x > 0) * x + (x <= 0) * 0.1 * x", x=F(3, 4))
add("nd.broadcast_div(x, nd.sum(x, axis=1, keepdims=True))", x=P(3, 4))
add("nd.sqrt(nd.mean(nd.square(x - nd.mean(x, axis=1, keepdims=True)), axis=1))", x=F(3, 4))
add("nd.log(1 + nd.exp(-nd.abs(x))) + nd.relu(-x)", x=F(3, 4))
add("1 - x + 2 * x - x / 2 + 3 / (x + 4)", x=P(3))
