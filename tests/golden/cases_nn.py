"""Layers, activations, softmax and the output operators with their own gradients."""

from __future__ import annotations

import numpy as np

from .op_cases import SPECIAL, Cases, F, I, P, V

CASES = Cases()
add = CASES.add

add("nd.FullyConnected(x, w, b, num_hidden=4)", x=F(2, 3), w=F(4, 3), b=F(4))
add("nd.FullyConnected(x, w, num_hidden=4, no_bias=True)", x=F(2, 3), w=F(4, 3))
add("nd.FullyConnected(x, w, b, num_hidden=4)", x=F(2, 3, 5), w=F(4, 15), b=F(4), atol=1e-5)
add("nd.FullyConnected(x, w, b, num_hidden=4, flatten=False)", x=F(2, 3, 5), w=F(4, 5), b=F(4))
add("nd.FullyConnected(x, w, num_hidden=4, flatten=False, no_bias=True)", x=F(2, 2, 3, 5), w=F(4, 5))
add("nd.FullyConnected(x, w, b, num_hidden=1)", x=F(1, 1), w=F(1, 1), b=F(1))
add(
    "nd.FullyConnected(data=x, weight=w, bias=b, num_hidden=4)",
    x=F(2, 3, dtype="float64"),
    w=F(4, 3, dtype="float64"),
    b=F(4, dtype="float64"),
)
add("nd.FullyConnected(x, w, b, num_hidden='4', flatten='False')", x=F(2, 3), w=F(4, 3), b=F(4))
add("nd.FullyConnected(x, w, b, num_hidden=4)", x=F(2, 3), w=F(4, 2), b=F(4), raises=True)
add("nd.FullyConnected(x, w, b, num_hidden=5)", x=F(2, 3), w=F(4, 3), b=F(4), raises=True)
add("nd.FullyConnected(x, w, b)", x=F(2, 3), w=F(4, 3), b=F(4), raises=True)
add("nd.FullyConnected(x, w, b, num_hidden=4)", x=F(2, 3), w=F(4, 3, dtype="float64"), b=F(4), raises=True)
add("nd.FullyConnected(x, w, b, num_hidden=4)", x=F(17, 31), w=F(4, 31), b=F(4), atol=1e-5)

edges = V(-100, -30, -1, -0.1, 0, 0.1, 1, 30, 100)
for act in ["relu", "sigmoid", "softrelu", "softsign", "tanh"]:
    add(f"nd.Activation(x, act_type='{act}')", x=F(3, 4))
    add(f"nd.Activation(x, act_type='{act}')", x=F(2, 3, 2, dtype="float64"))
    add(f"nd.Activation(x, act_type='{act}')", x=F(5, dtype="float16"), rtol=5e-3, atol=1e-3)
    add(f"nd.Activation(x, act_type='{act}')", x=edges, tag="edges")
    if act != "relu":
        add(f"nd.Activation(x, act_type='{act}')", x=SPECIAL, tag="special", grad=False)
add(
    "nd.Activation(x, act_type='relu')",
    x=SPECIAL,
    compat="NaN stays NaN; MXNet makes it 0",
    want="np.maximum(x, 0)",
)
add("nd.Activation(x, act_type='log_sigmoid')", x=F(3, 4), compat="of MXNet 2", want="-np.log1p(np.exp(-x))")
add("nd.Activation(x, act_type='nonsense')", x=F(3, 4), raises=True)
add("nd.Activation(x)", x=F(3, 4), raises=True)

LEAKY = ["leaky", "elu", "selu", "gelu"]
for act in LEAKY:
    wrong = "MXNet's selu differentiates at the wrong point" if act == "selu" else ""
    add(f"nd.LeakyReLU(x, act_type='{act}')", x=F(3, 4), no_grad=wrong)
    add(f"nd.LeakyReLU(x, act_type='{act}')", x=F(4, dtype="float64"), rtol=1e-6, no_grad=wrong)
    add(f"nd.LeakyReLU(x, act_type='{act}')", x=F(4, dtype="float16"), rtol=5e-3, atol=1e-3, grad=not wrong)
    add(f"nd.LeakyReLU(x, act_type='{act}')", x=edges, tag="edges", grad=not wrong)
    add(f"nd.LeakyReLU(x, act_type='{act}')", x=SPECIAL, tag="special", grad=False)
for act in ["leaky", "elu"]:
    add(f"nd.LeakyReLU(x, act_type='{act}', slope=0.1)", x=F(3, 4))
add("nd.LeakyReLU(x)", x=F(3, 4))
MASK = "the random slopes are not a second output"
for dtype in ["float32", "float64", "float16"]:
    add(
        "nd.LeakyReLU(x, act_type='rrelu')",
        x=F(3, 4, dtype=dtype),
        rtol=2e-3,
        compat=MASK,
        want="np.where(x > 0, x, x * 0.2295)",
    )
add(
    "nd.LeakyReLU(x, act_type='rrelu', lower_bound=0.1, upper_bound=0.5)",
    x=F(3, 4),
    compat=MASK,
    want="np.where(x > 0, x, x * 0.3)",
)
add("nd.LeakyReLU(x, g, act_type='prelu')", x=F(2, 3), g=F(3))
add("nd.LeakyReLU(x, g, act_type='prelu')", x=F(2, 3, 4), g=F(3))
add("nd.LeakyReLU(x, g, act_type='prelu')", x=F(2, 3, 4, 2), g=F(1))
add("nd.LeakyReLU(x, gamma=g, act_type='prelu')", x=F(5), g=F(1))
add("nd.LeakyReLU(x, act_type='swish')", x=F(3), raises=True)

for args in ["", "axis=0", "axis=1", "axis=-1", "axis=-2", "temperature=2.0", "axis=0, temperature=0.5"]:
    inside = ", ".join(["x", args] if args else ["x"])
    for name in ["softmax", "log_softmax", "softmin"]:
        add(f"nd.{name}({inside})", x=F(3, 4))
        add(f"nd.{name}({inside})", x=F(2, 3, 4))
for name in ["softmax", "log_softmax", "softmin"]:
    add(f"nd.{name}(x)", x=F(5, dtype="float64"))
    add(f"nd.{name}(x)", x=F(5, dtype="float16"), rtol=5e-3, atol=1e-3)
    add(f"nd.{name}(x)", x=V(1000, 1001, 999, -1000, 0, 3, shape=(2, 3)), tag="large", rtol=2e-4)
    add(f"nd.{name}(x, axis=3)", x=F(2, 3), raises=True)
    add(f"nd.{name}(x, dtype='float64')", x=F(2, 3), grad=False, rtol=1e-6)
    add(f"nd.{name}(x)", x=F(2, 1), tag="one")
    add(f"nd.{name}(x)", x=I(2, 3), raises=True)
odd_rows = V(0, np.inf, 1, 0, -np.inf, 1, 0, np.nan, 1, shape=(3, 3))
ROWS = "a row with NaN or inf gives NaN as a whole; what MXNet gives depends on the place in the row"
add("nd.softmin(x)", x=odd_rows, tag="special", grad=False)
less = "d = x - x.max(axis=-1, keepdims=True); e = np.exp(d).sum(axis=-1, keepdims=True); "
add("nd.softmax(x)", x=odd_rows, tag="special", compat=ROWS, want=less + "np.exp(d) / e")
add("nd.log_softmax(x)", x=odd_rows, tag="special", compat=ROWS, want=less + "d - np.log(e)")
add("nd.softmax(x, n, use_length=True)", x=F(3, 4), n=V(1, 4, 2, dtype="int32"))
add(
    "nd.softmax(x, n, use_length=True, axis=1)",
    x=F(2, 4, 3),
    n=V(1, 4, 2, 3, 2, 4, dtype="int32", shape=(2, 3)),
)
add(
    "nd.softmax(data=x, length=n, use_length=True, axis=-1)",
    x=F(2, 3, 4),
    n=V(1, 4, 2, 3, 2, 4, dtype="int32", shape=(2, 3)),
)
add("nd.SoftmaxActivation(x)", x=F(3, 4))
add("nd.SoftmaxActivation(x, mode='channel')", x=F(2, 3, 4))

label = V(1, 0, 3)
places = V(0, 1, 2, 1, 2, 2, 0, 1, shape=(2, 4))
for args in ["", ", grad_scale=2.0", ", normalization='batch'", ", normalization='valid'", ", use_ignore=True, ignore_label=0",
             ", use_ignore=True, ignore_label=0, normalization='valid'", ", smooth_alpha=0.1",
             ", use_ignore=True, ignore_label=0, normalization='batch', grad_scale=3.0", ", preserve_shape=True"]:  # fmt: skip
    add(f"nd.SoftmaxOutput(x, y{args})", x=F(3, 4), y=label, grad=("x",))
    add(
        f"nd.SoftmaxOutput(x, y, multi_output=True{args})",
        x=F(2, 3, 4),
        y=places,
        grad=("x",),
        no_grad="MXNet does not smooth with multi_output" if "smooth" in args else "",
        want="(out - 0.05 - 0.85 * np.moveaxis(np.eye(3)[y.astype(int)], -1, 1)) / 4" if "smooth" in args else "",
    )
OUT_GRAD = "MXNet multiplies with the output where it means the output's gradient"
add("nd.SoftmaxOutput(x, y, out_grad=True)", x=F(3, 4), y=label, grad=("x",), no_grad=OUT_GRAD,
    want="(out - np.eye(4)[y.astype(int)]) * w")  # fmt: skip
add("nd.SoftmaxOutput(x, y, multi_output=True, out_grad=True)", x=F(2, 3, 4), y=places, grad=("x",), no_grad=OUT_GRAD,
    want="(out - np.moveaxis(np.eye(3)[y.astype(int)], -1, 1)) * w / 4")  # fmt: skip
add("nd.SoftmaxOutput(x, y)", x=F(3, 4, dtype="float64"), y=label.astype("float64"), grad=("x",))
add("nd.SoftmaxOutput(x, y)", x=F(3, 4), y=P(3, 4), grad=("x",), tag="probabilities")
add(
    "nd.SoftmaxOutput(x, y, preserve_shape=True)",
    x=F(2, 3, 4),
    y=V(0, 1, 2, 1, 2, 3, shape=(2, 3)),
    grad=("x",),
)
add("nd.SoftmaxOutput(x, y)", x=F(2, 3, 4), y=V(5, 1), raises=True)
add("nd.SoftmaxOutput(x, y)", x=F(3, 4), y=F(2), raises=True)
add("nd.Softmax(x, y)", x=F(3, 4), y=label, grad=("x",))
add("nd.softmax_cross_entropy(x, y)", x=F(3, 4), y=label, grad=("x",))
add("nd.softmax_cross_entropy(x, y)", x=F(3, 4, dtype="float64"), y=label.astype("float64"), grad=("x",))

for name in ["LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"]:
    add(f"nd.{name}(x, y)", x=F(3, 4), y=F(3, 4), grad=("x",))
    add(f"nd.{name}(x, y, grad_scale=0.5)", x=F(3, 4), y=F(3, 4), grad=("x",))
    add(f"nd.{name}(x, y)", x=F(3, 1), y=F(3), grad=("x",))
    add(f"nd.{name}(x, y)", x=F(3, 2, dtype="float64"), y=F(3, 2, dtype="float64"), grad=("x",))
    add(f"nd.{name}(x, y)", x=F(3, 2), y=F(2, 2), raises=True)

for args in ["", ", axis=1", ", axis=-2", ", eps=0.1"]:
    add(f"nd.LayerNorm(x, g, b{args})", x=F(3, 4, 4), g=P(4), b=F(4), rtol=1e-4, atol=1e-5)
add("nd.LayerNorm(x, g, b)", x=F(5, 7), g=P(7), b=F(7), rtol=1e-4, atol=1e-5)
add("nd.LayerNorm(x, g, b, axis=0)", x=F(5, 7), g=P(5), b=F(5), rtol=1e-4, atol=1e-5)
add(
    "nd.LayerNorm(x, g, b)",
    x=F(3, 4, dtype="float64"),
    g=P(4, dtype="float64"),
    b=F(4, dtype="float64"),
    rtol=1e-6,
)
add(
    "nd.LayerNorm(data=x, gamma=g, beta=b)",
    x=V(100, 100.5, 101, 99, shape=(1, 4)),
    g=P(4),
    b=F(4),
    rtol=1e-3,
    atol=1e-4,
)
add("nd.LayerNorm(x, g, b, output_mean_var=True)", x=F(3, 4), g=P(4), b=F(4), grad=False, rtol=1e-4)
channels = {"g": P(3), "b": F(3), "m": F(3), "v": P(3)}
for args in ["", ", fix_gamma=False", ", fix_gamma=False, eps=0.1, axis=-1"]:
    add(f"nd.BatchNorm(x, g, b, m, v{args})", x=F(4, 3), grad=("x", "b"), rtol=1e-4, atol=1e-5, **channels)
    add(f"nd.BatchNorm(x, g, b, m, v{args})", x=F(3, 3, 3), grad=("x", "b"), rtol=1e-4, atol=1e-5, **channels)
add("nd.BatchNorm(x, g, b, m, v, fix_gamma=False, use_global_stats=True)", x=F(4, 3), grad=("x", "g", "b"), **channels)
add(
    "nd.BatchNorm(x, g, b, m, v, fix_gamma=False)", x=F(4, 3, 2), grad=("x", "g", "b"), rtol=1e-4, atol=1e-5, **channels
)
add("nd.BatchNorm(x, g, b, m, v, output_mean_var=True)", x=F(4, 3), grad=False, rtol=1e-4, **channels)
add("nd.BatchNorm(x, g, b, m, v)", x=F(4, 2), raises=True, compat="reads beyond gamma", **channels)
add("nd.LayerNorm(x, g, b)", x=F(3, 4), g=P(3), b=F(4), raises=True)

add("nd.Dropout(x)", x=F(3, 4))
add("nd.Dropout(x, p=0.9)", x=F(3, 4))
add("nd.Dropout(x, p=0.0, mode='always')", x=F(3, 4))
add("nd.Dropout(x, p=0.5, axes=(0,))", x=F(3, 4))
add("nd.Dropout(x, p=1.5)", x=F(3, 4), raises=True)

add("nd.Embedding(i, w, input_dim=5, output_dim=3)", i=V(0, 4, 2), w=F(5, 3), grad=("w",))
add("nd.Embedding(i, w, input_dim=5, output_dim=3)", i=V(0, 4, 2, 2, shape=(2, 2), dtype="int32"), w=F(5, 3))
add("nd.Embedding(i, w, input_dim=5, output_dim=3)", i=V(-1, 7, 2), w=F(5, 3), grad=("w",), tag="out of range")
add(
    "nd.Embedding(i, w, input_dim=5, output_dim=3, dtype='float64')",
    i=V(1, 1, 1, dtype="int64"),
    w=F(5, 3, dtype="float64"),
)
add("nd.Embedding(data=i, weight=w, input_dim=5, output_dim=3)", i=V(3, 3, 1), w=F(5, 3), grad=("w",))
add("nd.Embedding(i, w, input_dim=5, output_dim=3)", i=V(0, 4, 2), w=F(4, 3), raises=True)

add("nd.L2Normalization(x)", x=F(3, 4))
add("nd.L2Normalization(x, mode='channel')", x=F(2, 3, 4))
add("nd.L2Normalization(x, mode='spatial')", x=F(2, 3, 4))
add(
    "nd.sum(nd.softmax(nd.FullyConnected(x, w, b, num_hidden=4)) * nd.one_hot(i, 4), axis=1)",
    x=F(2, 3),
    w=F(4, 3),
    b=F(4),
    i=V(1, 3),
    grad=("x", "w", "b"),
)
add("nd.log(nd.softmax(x)) - nd.log_softmax(x)", x=F(2, 3), atol=1e-5)
add("nd.BlockGrad(nd.softmax(x)) * x", x=F(2, 3))
