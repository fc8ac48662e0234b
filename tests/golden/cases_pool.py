"""Windows, pooling, resizing and normalization: the operators of image networks beside convolution."""

from __future__ import annotations

import numpy as np

from .op_cases import EMPTY, Cases, F, I, P, V

CASES = Cases()
add = CASES.add

# --- pooling ----------------------------------------------------------------------------------------------------------

KINDS = ("pool_type='max'", "pool_type='avg'", "pool_type='sum'", "pool_type='lp', p_value=2")
near = {"rtol": 1e-5, "atol": 1e-5}
DIVISOR = "MXNet's backward divides by the whole window where the forward divides by what is there"
WORKSPACE = "MXNet's backward of a maximum of float32 reads a workspace that only training writes"
for kind in KINDS:
    near["no_grad"] = WORKSPACE if "max" in kind else ""
    add(f"nd.Pooling(x, kernel=(3,), stride=(2,), pad=(1,), {kind})", x=F(2, 2, 7), **near)
    add(f"nd.Pooling(x, kernel=(3, 2), stride=(2, 1), {kind})", x=F(2, 2, 5, 4), **near)
    add(f"nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), {kind})", x=F(1, 2, 6, 7), **near)
    add(f"nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(2, 1), {kind})", x=F(1, 2, 6, 7, dtype="float64"), rtol=1e-6)
    add(f"nd.Pooling(x, kernel=(2, 2, 3), stride=(1, 2, 2), pad=(1, 0, 1), {kind})", x=F(1, 2, 3, 4, 5), **near)
    add(
        f"nd.Pooling(x, kernel=(3, 2), stride=(2, 2), pad=(1, 0), pooling_convention='full', {kind})",
        x=F(1, 2, 6, 7), **near | ({"no_grad": DIVISOR} if "avg" in kind else {}),
    )  # fmt: skip
    add(
        f"nd.Pooling(x, kernel=(3, 2), stride=(2, 2), pad=(1, 0), pooling_convention='full', {kind})",
        x=F(1, 2, 6, 7, dtype="float64"), rtol=1e-6,
    )  # fmt: skip
    add(f"nd.Pooling(x, global_pool=True, {kind})", x=F(2, 3, 4, 5), **near)
    add(f"nd.Pooling(x, kernel=(2, 2), global_pool=True, pooling_convention='full', {kind})", x=F(2, 3, 5, 1), **near)
    add(f"nd.Pooling(x, kernel=(2, 2), stride=(2, 2), layout='NHWC', {kind})", x=F(2, 5, 4, 3), **near)
    add(f"nd.Pooling(x, kernel=(2,), layout='NWC', {kind})", x=F(2, 5, 3), **near)
    add(f"nd.Pooling(x, kernel=(2, 1, 2), pad=(1, 0, 1), layout='NDHWC', {kind})", x=F(1, 3, 2, 3, 2), **near)
    add(f"nd.Pooling(x, global_pool=True, layout='NDHWC', {kind})", x=F(2, 2, 3, 2, 2), **near)
    add(f"nd.Pooling(x, kernel=(1, 1), {kind})", x=F(1, 1, 1, 1), **near)
near = {"rtol": 1e-5, "atol": 1e-5}
SAME = "there 'same' without pad, or of more than one axis, is an error"
add(
    "nd.Pooling(x, kernel=(3,), stride=(2,), pooling_convention='same')", x=F(1, 1, 6), compat=SAME,
    want="np.stack([x[..., i : i + 3].max(-1) for i in (0, 2, 4)], -1)",
)  # fmt: skip
for dtype in ("float32", "float64"):
    both = {"grad": dtype == "float64"}
    add("nd.Pooling(x, kernel=(2, 2))", x=V([[[1, 1, 1], [1, 1, 1], [1, 1, 1]]], dtype=dtype), tag="ties", **both)
    add("nd.Pooling(x, global_pool=True)", x=V([[[0, 1, 1], [1, 1, 1]]], dtype=dtype), tag="ties", **both)
    add(
        "nd.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type='avg', count_include_pad=False)",
        x=F(1, 2, 4, 3, dtype=dtype), **near,
    )  # fmt: skip
    add(
        "nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type='avg', count_include_pad=False, "
        "pooling_convention='full')",
        x=F(1, 2, 4, 6, dtype=dtype), **near,
    )  # fmt: skip
    add("nd.Pooling(x, kernel=(2,), pool_type='lp', p_value=1)", x=F(1, 2, 4, dtype=dtype), **near)
    add("nd.Pooling(x, kernel=(2,), pool_type='lp', p_value=3)", x=F(1, 2, 4, dtype=dtype), rtol=1e-5, atol=1e-5)
    add("nd.Pooling(x, kernel=(2,), pool_type='lp', p_value=2)", x=V([[0, 0, -3, 4]], dtype=dtype), tag="zeros")
    add("nd.Pooling(x, kernel=(2,), pad=(1,))", x=V([[-1, -2, -3]], dtype=dtype), tag="negative", **both)
    add(
        "nd.Pooling(x, kernel=(2,), stride=(2,), pad=(1,), pool_type='avg', pooling_convention='full')",
        x=V([[1, 2, 3]], dtype=dtype), tag="a window of padding", no_grad=DIVISOR if dtype == "float32" else "",
    )  # fmt: skip
    add(
        "nd.Pooling(x, kernel=(2,))", x=V([[1, np.nan, 3, np.nan, np.nan, 4]], dtype=dtype), tag="nan", grad=False,
        compat="a maximum with nan is nan; there nan is skipped", want="np.maximum(x[..., :-1], x[..., 1:])",
    )  # fmt: skip
    add("nd.Pooling(x, kernel=(2,), pool_type='sum')", x=V([[1, np.nan, 3, np.inf, 4]], dtype=dtype), grad=False)
add(
    "nd.Pooling(x, kernel=(2,))", x=V([[-np.inf, -np.inf, np.inf]]), grad=False, tag="inf",
    compat="the maximum of -inf is -inf; there the least number", want="x[..., 1:]",
)  # fmt: skip
add(
    "nd.Pooling(x, kernel=(2, 2), pool_type='avg')", x=V([[[0, 1], [2, 3]]], dtype="float16"), grad=False,
    compat="there inf", want="np.full((1, 1, 1, 1), 1.5, 'float16')",
)  # fmt: skip
add("nd.Pooling(x, kernel=(2, 2), stride=(2, 2))", x=F(1, 2, 4, 5, dtype="float16"), rtol=1e-3, atol=1e-3)
add("nd.Pooling(x, kernel=(2,))", x=F(0, 2, 4), compat=EMPTY, want="np.zeros((0, 2, 3), 'float32')")
for bad in (
    "kernel=(5,)", "kernel=(5,), pooling_convention='full'", "kernel=(2,), pad=(2,)", "kernel=(2,), stride=(0,)",
    "kernel=(2,), stride=(-1,)", "kernel=(0,)", "kernel=()", "kernel=(2, 2)", "kernel=(2,), layout='NCHW'",
    "kernel=(2,), layout='WNC'", "kernel=(2,), pool_type='min'", "kernel=(2,), pool_type='lp'",
    "kernel=(2,), pool_type='lp', p_value=4", "kernel=(2,), pooling_convention='ceil'",
):  # fmt: skip
    add(f"nd.Pooling(x, {bad})", x=F(1, 1, 4), raises=True)
add("nd.Pooling(x, kernel=(2,))", x=F(1, 4), raises=True)
add("nd.Pooling(x, kernel=(2, 2), stride=(2,))", x=F(1, 1, 4, 4), raises=True)
add("nd.Pooling(x, kernel=(2,))", x=I(1, 1, 4), raises=True)
add("nd.Pooling(x, kernel='(2, 2)', pool_type='avg', stride='(1, 2)', cudnn_off='True')", x=F(1, 1, 4, 4))
add("nd.Pooling_v1(x, kernel=(2, 2), pool_type='avg')", x=F(1, 2, 4, 5), **near)
add("nd.Pooling_v1(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type='avg', pooling_convention='full')",
    x=F(1, 2, 4, 4), **near)  # fmt: skip
add(
    "nd.Pooling_v1(x, kernel=(2, 2), stride=(2, 2), pool_type='sum', pooling_convention='full')",
    x=F(1, 1, 5, 5),
    **near,
)
add("nd.Pooling_v1(x, kernel=(2, 2), stride=(2, 2))", x=F(1, 2, 4, 5))
add("nd.Pooling_v1(x, global_pool=True, pool_type='avg')", x=F(1, 2, 4, 4), **near)

add(
    "nd.Pooling(x, kernel=(3,), stride=(2,), pad=(0, 0, 0), pooling_convention='same')", x=F(1, 2, 7), raises=True,
    compat="pad has one number for each axis; there it must have three",
)  # fmt: skip

# --- windows as columns -----------------------------------------------------------------------------------------------

add("nd.im2col(x, kernel=(2, 2))", x=F(2, 2, 3, 4))
add("nd.im2col(x, kernel=(3, 2), stride=(2, 1), dilate=(1, 2), pad=(1, 2))", x=F(1, 2, 5, 4))
add("nd.im2col(x, kernel=(2, 2), stride=(2, 2))", x=F(1, 1, 5, 5, dtype="float64"))
add("nd.col2im(x, output_size=(3, 4), kernel=(2, 2))", x=F(1, 8, 6))
add("nd.col2im(x, output_size=(5, 4), kernel=(3, 2), stride=(2, 1), dilate=(1, 2), pad=(1, 2))", x=F(1, 6, 18))
add("nd.im2col(x, kernel=(6,))", x=F(1, 1, 5), raises=True)
add("nd.im2col(x, kernel=(2, 2), stride=(2,))", x=F(1, 1, 5, 5), raises=True)
add("nd.col2im(x, output_size=(4, 4), kernel=(2, 2))", x=F(1, 5, 9), raises=True)
add("nd.col2im(x, output_size=(4, 4), kernel=(2, 2))", x=F(1, 4, 8), raises=True)

# --- resizing ---------------------------------------------------------------------------------------------------------

for size in ("output_size=3", "output_size=(2, 3)", "output_size=(6, 7)", "output_size=(2,)", "output_size=1"):
    add(f"nd.contrib.AdaptiveAvgPooling2D(x, {size})", x=F(2, 2, 4, 5), **near)
add("nd.contrib.AdaptiveAvgPooling2D(x)", x=F(2, 2, 4, 5), **near)
add("nd.contrib.AdaptiveAvgPooling2D(x, output_size=(2, 5))", x=F(2, 2, 4, 5, dtype="float64"), rtol=1e-5)
add("nd.contrib.AdaptiveAvgPooling2D(x, output_size=2)", x=F(4, 5), raises=True)
add("nd.contrib.AdaptiveAvgPooling2D(x, output_size=2)", x=I(1, 1, 4, 5), raises=True)
for size in (
    "height=7, width=3", "height=2, width=2", "height=1, width=1", "height=4, width=5", "scale_height=2, scale_width=0.5",
    "scale_height=1.9, scale_width=0.7",
):  # fmt: skip
    add(f"nd.contrib.BilinearResize2D(x, {size})", x=F(2, 2, 4, 5), **near)
    add(f"nd.contrib.BilinearResize2D(x, {size}, align_corners=False)", x=F(2, 2, 4, 5), **near)
add("nd.contrib.BilinearResize2D(x, height=5, width=4)", x=F(1, 2, 3, 3, dtype="float64"), rtol=1e-5, atol=1e-6)
add("nd.contrib.BilinearResize2D(x, mode='odd_scale', scale_height=0.5, scale_width=2)", x=F(1, 2, 4, 5), **near)
add("nd.contrib.BilinearResize2D(x, mode='odd_scale', scale_height=2, scale_width=0.5)", x=F(1, 2, 4, 5), **near)
add("nd.contrib.BilinearResize2D(x, y, mode='like')", x=F(1, 2, 4, 5), y=F(3, 2, 2, 3), **near)
for mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
    add(f"nd.contrib.BilinearResize2D(x, mode='{mode}')", x=F(1, 2, 4, 5), **near)
add("nd.contrib.BilinearResize2D(x, height=3, width=4)", x=F(1, 1, 1, 1), **near)
for bad in ("height=0, width=2", "mode='odd_scale'", "mode='scale'", "mode='like'", "scale_height=2.0"):
    add(f"nd.contrib.BilinearResize2D(x, {bad})", x=F(1, 1, 4, 5), raises=True)
add("nd.contrib.BilinearResize2D(x, height=2, width=2)", x=F(1, 4, 5), raises=True)
add("nd.contrib.BilinearResize2D(x, height=2, width=2)", x=I(1, 1, 4, 5), raises=True)
add("nd.UpSampling(x, scale=2, sample_type='nearest')", x=F(2, 2, 2, 3))
add("nd.UpSampling(x, scale=3, sample_type='nearest')", x=F(1, 1, 2, 1, dtype="float64"))
add("nd.UpSampling(x, scale=1, sample_type='nearest')", x=F(1, 1, 2, 2))
add("nd.UpSampling(x, y, scale=2, sample_type='nearest', num_args=2)", x=F(1, 2, 2, 2), y=F(1, 1, 1, 1))
add("nd.UpSampling(x, y, scale=2, sample_type='nearest', num_args=2)", x=F(1, 2, 2, 2), y=F(1, 1, 4, 4))
add(
    "nd.UpSampling(x, y, scale=2, sample_type='nearest', num_args=2, multi_input_mode='sum')",
    x=F(1, 2, 2, 2), y=F(1, 2, 1, 1),
)  # fmt: skip
add(
    "nd.UpSampling(x, w, scale=2, sample_type='bilinear', num_filter=2, num_args=2)",
    x=F(1, 2, 2, 3), w=F(2, 1, 4, 4), **near,
)  # fmt: skip
add(
    "nd.UpSampling(x, w, scale=3, sample_type='bilinear', num_filter=1, num_args=2)",
    x=F(2, 1, 2, 2), w=F(1, 1, 5, 5), **near,
)  # fmt: skip
add("nd.UpSampling(x, scale=2, sample_type='nearest')", x=F(1, 1, 4), raises=True)
add("nd.UpSampling(x, scale=0, sample_type='nearest')", x=F(1, 1, 2, 2), raises=True)
add("nd.UpSampling(x, scale=2)", x=F(1, 1, 2, 2), raises=True)
add("nd.UpSampling(x, scale=2, sample_type='bilinear')", x=F(1, 1, 2, 2), raises=True)

# --- normalization ----------------------------------------------------------------------------------------------------

near = {"rtol": 1e-4, "atol": 1e-5}
for args in ("nsize=3", "nsize=3, alpha=1.5, beta=0.5, knorm=1", "nsize=5, alpha=0.5", "nsize=1, alpha=1",
             "nsize=9, alpha=1.5, knorm=0.5", "nsize=4, alpha=1.5"):  # fmt: skip
    add(f"nd.LRN(x, {args})", x=F(2, 5, 2, 3), **near)
add("nd.LRN(x, nsize=3)", x=I(1, 3, 2, 2), raises=True)
add("nd.LRN(x)", x=F(1, 3, 2, 2), raises=True)
for groups in (1, 2, 4):
    add(f"nd.GroupNorm(x, g, b, num_groups={groups})", x=F(2, 4, 3), g=P(groups), b=F(groups), tag="groups", **near)
add("nd.GroupNorm(x, g, b, num_groups=2, eps=0.1)", x=F(2, 4, 3, 2), g=P(2), b=F(2), **near)
add("nd.GroupNorm(x, g, b, num_groups=2, output_mean_var=True)", x=F(2, 4, 3), g=P(2), b=F(2), grad=False, **near)
add("nd.GroupNorm(x, g, b, num_groups=3)", x=F(2, 4, 3), g=P(3), b=F(3), raises=True)
add("nd.GroupNorm(x, g, b, num_groups=2)", x=F(2, 4), g=P(2), b=F(2), raises=True)
add("nd.GroupNorm(x, g, b, num_groups=2)", x=F(2, 4, 3), g=P(3), b=F(3), raises=True)
add("nd.InstanceNorm(x, g, b)", x=F(2, 3, 2, 1, 3), g=P(3), b=F(3), **near)
add("nd.InstanceNorm(x, g, b)", x=F(2, 3), g=P(3), b=F(3), raises=True)
for mode in ("instance", "channel", "spatial"):
    add(f"nd.L2Normalization(x, mode='{mode}')", x=F(2, 3, 4, 2), **near)
    add(f"nd.L2Normalization(x, mode='{mode}', eps=0.5)", x=F(2, 3, 4), **near)
add("nd.L2Normalization(x, mode='channel')", x=F(2, 3), raises=True)
add("nd.SoftmaxActivation(x, mode='channel')", x=F(2, 3, 2, 2), **near)
add("nd.SoftmaxActivation(x, mode='instance')", x=F(2, 3, 2), **near)
states = {"g": P(3), "b": F(3), "m": F(3), "v": P(3)}
for args in ("", ", fix_gamma=False", ", fix_gamma=False, use_global_stats=True, eps=0.1", ", momentum=0.5"):
    wanted = ("x", "b") if "fix_gamma" not in args else ("x", "g", "b")
    add(f"nd.contrib.BatchNormWithReLU(x, g, b, m, v{args})", x=F(2, 3, 2, 2), grad=wanted,
        compat="in predict mode the gradient is another one; that of `want` is the formula's",
        want="np.maximum((x - m[:, None, None]) / np.sqrt(v[:, None, None] + "
        + ("0.1" if "eps" in args else "1e-3") + ")" + (" * g[:, None, None]" if "fix_gamma" in args else "")
        + " + b[:, None, None], 0)", **states, **near)  # fmt: skip
    add(f"nd.contrib.SyncBatchNorm(x, g, b, m, v, key='n'{args})", x=F(4, 3, 2), grad=wanted, **states, **near)
add("nd.contrib.SyncBatchNorm(x, g, b, m, v)", x=F(4, 3), raises=True, **states)
add("nd.BatchNorm(x, g, b, m, v, axis=2)", x=F(4, 3), raises=True, **states)
for axis, shape in ((-1, (2, 4, 3)), (2, (2, 4, 3, 2)), (0, (3, 4, 2))):
    add(
        f"nd.BatchNorm(x, g, b, m, v, axis={axis}, fix_gamma=False)",
        x=F(*shape),
        grad=("x", "g", "b"),
        **states,
        **near,
    )
TRAINING = (
    "x.attach_grad(); b.attach_grad(); f = mx.autograd.record(); f.__enter__(); y = {}; z = y * x; f.__exit__(0, 0, 0); "
    "z.backward(); [y, x.grad, b.grad, m, v]"
)
trained = {"grad": False, "trace": False, "rtol": 1e-4, "atol": 5e-5, **states}
for args in ("momentum=0.5", "fix_gamma=False", "use_global_stats=True", "momentum=0.5, axis=-1"):
    call = f"nd.BatchNorm(x, g, b, m, v, {args})"
    add(TRAINING.format(call), x=F(4, 2, 3) if "axis" in args else F(4, 3, 2), **trained)
    if "axis" not in args:
        add(TRAINING.format(f"nd.contrib.SyncBatchNorm(x, g, b, m, v, key='n', {args})"), x=F(4, 3, 2), **trained)
        add(TRAINING.format(f"nd.contrib.BatchNormWithReLU(x, g, b, m, v, {args})"), x=F(4, 3, 2, 1), **trained)
for widths in ("(0, 0, 0, 0, 1, 2, 0, 3)", "(0, 0, 0, 0, 2, 2, 1, 1)"):
    for mode in ("mode='constant', constant_value=2.5", "mode='edge'", "mode='reflect'"):
        add(f"nd.Pad(x, {mode}, pad_width={widths})", x=F(1, 2, 4, 5))
add("nd.Pad(x, mode='constant', pad_width=(0, 0, 0, 0, 1, 0, 2, 1, 0, 1), constant_value=-1)", x=F(1, 1, 2, 3, 2))
add("nd.Pad(x, mode='edge', pad_width=(0, 0, 0, 0, 1, 0, 2, 1, 0, 1))", x=F(1, 1, 2, 3, 2))
add("nd.Pad(x, mode='reflect', pad_width=(0, 0, 0, 0, 1, 0, 2, 1, 0, 1))", x=F(1, 1, 2, 3, 2))
