"""Windows, pooling, resizing and normalization: the operators of image networks beside convolution."""

from __future__ import annotations

import numpy as np

from .op_cases import EMPTY, Cases, F, I, V

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
