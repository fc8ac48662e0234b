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
for kind in KINDS:
    add(f"nd.Pooling(x, kernel=(3,), stride=(2,), pad=(1,), {kind})", x=F(2, 2, 7), **near)
    add(f"nd.Pooling(x, kernel=(3, 2), stride=(2, 1), {kind})", x=F(2, 2, 5, 4), **near)
    add(f"nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), {kind})", x=F(1, 2, 6, 7), **near)
    add(f"nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(2, 1), {kind})", x=F(1, 2, 6, 7, dtype="float64"), rtol=1e-6)
    add(f"nd.Pooling(x, kernel=(2, 2, 3), stride=(1, 2, 2), pad=(1, 0, 1), {kind})", x=F(1, 2, 3, 4, 5), **near)
    add(
        f"nd.Pooling(x, kernel=(3, 2), stride=(2, 2), pad=(1, 0), pooling_convention='full', {kind})",
        x=F(1, 2, 6, 7), no_grad=DIVISOR if "avg" in kind else "", **near,
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
SAME = "there 'same' without pad, or of more than one axis, is an error"
add(
    "nd.Pooling(x, kernel=(3,), stride=(2,), pooling_convention='same')", x=F(1, 1, 6), compat=SAME,
    want="np.stack([x[..., i : i + 3].max(-1) for i in (0, 2, 4)], -1)",
)  # fmt: skip
for dtype in ("float32", "float64"):
    add("nd.Pooling(x, kernel=(2, 2))", x=V([[[1, 1, 1], [1, 1, 1], [1, 1, 1]]], dtype=dtype), tag="ties")
    add("nd.Pooling(x, global_pool=True)", x=V([[[0, 1, 1], [1, 1, 1]]], dtype=dtype), tag="ties")
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
    add("nd.Pooling(x, kernel=(2,), pad=(1,))", x=V([[-1, -2, -3]], dtype=dtype), tag="negative")
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
