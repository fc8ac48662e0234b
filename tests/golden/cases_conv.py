"""Convolution and its transpose."""

from __future__ import annotations

from .op_cases import Cases, F

CASES = Cases()
add = CASES.add

for x, w, given in [
    ((2, 3, 9), (4, 3, 3), "kernel=(3,)"),
    ((2, 3, 9), (4, 3, 3), "kernel=(3,), stride=(2,), pad=(1,), dilate=(2,)"),
    ((2, 3, 5, 6), (4, 3, 3, 3), "kernel=(3, 3)"),
    ((2, 3, 5, 6), (4, 3, 3, 3), "kernel='(3, 3)', pad='(1, 1)', stride='(1, 1)'"),
    ((2, 3, 9, 8), (4, 3, 3, 2), "kernel=(3, 2), pad=(2, 1), stride=(2, 3)"),
    ((2, 3, 9, 8), (4, 3, 3, 2), "kernel=(3, 2), pad=(2, 1), dilate=(2, 3)"),
    ((2, 4, 5, 6), (6, 2, 3, 3), "kernel=(3, 3), pad=(1, 1), num_group=2"),
    ((2, 4, 7, 7), (4, 1, 3, 3), "kernel=(3, 3), pad=(1, 1), num_group=4, stride=(2, 2)"),
    ((2, 3, 1, 1), (4, 3, 1, 1), "kernel=(1, 1)"),
    ((2, 3, 4, 4), (4, 3, 1, 1), "kernel=(1, 1), stride=(2, 2)"),
    ((1, 1, 3, 3), (2, 1, 3, 3), "kernel=(3, 3), pad=(3, 4)"),
    ((1, 2, 3, 3), (2, 2, 5, 5), "kernel=(5, 5), pad=(1, 1)"),
    ((2, 2, 4, 5, 4), (3, 2, 3, 2, 2), "kernel=(3, 2, 2), pad=(1, 0, 1), stride=(2, 1, 1)"),
]:
    count = w[0]
    add(f"nd.Convolution(x, w, b, {given}, num_filter={count})", x=F(*x), w=F(*w), b=F(count), atol=1e-5)
    add(f"nd.Convolution(x, w, {given}, num_filter={count}, no_bias=True)", x=F(*x), w=F(*w), atol=1e-5)
add(
    "nd.Convolution(x, w, b, kernel=(3, 3), num_filter=2)",
    x=F(1, 2, 4, 4, dtype="float64"),
    w=F(2, 2, 3, 3, dtype="float64"),
    b=F(2, dtype="float64"),
)
for wrong in [
    "kernel=(3, 3), num_filter=3",
    "kernel=(3,), num_filter=2",
    "kernel=(3, 3), num_filter=2, num_group=3",
    "kernel=(3, 3), num_filter=2, stride=(0, 1)",
    "kernel=(6, 6), num_filter=2",
    "num_filter=2",
]:
    add(f"nd.Convolution(x, w, b, {wrong})", x=F(1, 2, 4, 4), w=F(2, 2, 3, 3), b=F(2), raises=True)

for x, w, given in [
    ((2, 3, 5), (3, 4, 3), "kernel=(3,), num_filter=4"),
    ((2, 3, 5), (3, 4, 4), "kernel=(4,), num_filter=4, stride=(2,), pad=(1,)"),
    ((2, 3, 4, 5), (3, 2, 3, 3), "kernel=(3, 3), num_filter=2"),
    ((2, 3, 4, 5), (3, 2, 4, 4), "kernel=(4, 4), num_filter=2, stride=(2, 2), pad=(1, 1)"),
    ((2, 3, 4, 5), (3, 2, 3, 2), "kernel=(3, 2), num_filter=2, stride=(3, 2), adj=(2, 1)"),
    ((2, 4, 4, 3), (4, 1, 3, 3), "kernel=(3, 3), num_filter=2, num_group=2, pad=(1, 0)"),
    ((2, 4, 4, 3), (4, 1, 4, 4), "kernel=(4, 4), num_filter=4, num_group=4, stride=(2, 2), pad=(1, 1)"),
    ((1, 2, 4, 4), (2, 3, 3, 3), "kernel=(3, 3), num_filter=3, dilate=(2, 2)"),
]:
    count = w[1] * (2 if "num_group=2" in given else 4 if "num_group=4" in given else 1)
    add(f"nd.Deconvolution(x, w, {given})", x=F(*x), w=F(*w), atol=1e-5)
    add(f"nd.Deconvolution(x, w, b, {given}, no_bias=False)", x=F(*x), w=F(*w), b=F(count), atol=1e-5)
add("nd.Deconvolution(x, w, kernel=(3, 3), num_filter=2, adj=(1, 1))", x=F(1, 2, 3, 3), w=F(2, 2, 3, 3), raises=True)
