"""Operators beyond the main families: sequences, other normalisations, contrib, linear algebra, small helpers."""

from __future__ import annotations

import numpy as np

from .op_cases import Cases, F, P, V

CASES = Cases()
add = CASES.add

lengths = V(1, 3)
for name in ["SequenceLast", "SequenceMask", "SequenceReverse"]:
    add(f"nd.{name}(x)", x=F(3, 2, 2), grad=name != "SequenceLast")
    add(f"nd.{name}(x, n, use_sequence_length=True)", x=F(3, 2, 2), n=lengths, grad=("x",))
    if name != "SequenceReverse":  # along the first axis only
        add(f"nd.{name}(x, n, use_sequence_length=True, axis=1)", x=F(2, 3, 2), n=lengths, grad=("x",))
add("nd.SequenceMask(x, n, use_sequence_length=True, value=-5)", x=F(3, 2, 2), n=lengths, grad=("x",))
add("nd.SequenceMask(x, n, use_sequence_length=True)", x=F(3, 2), n=lengths, grad=("x",))
add("nd.SequenceReverse(x, n, use_sequence_length=True)", x=F(4, 2, 3), n=V(4, 2), grad=("x",))

near = {"rtol": 1e-4, "atol": 1e-5}
CHANNELS = "gamma and beta may belong to the channels, as in MXNet 2; in 1.9.1 only to the groups"
for groups in [1, 2, 4]:
    normal = f"y = x.reshape(2, {groups}, -1); y = (y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5); "
    add(f"nd.GroupNorm(x, g, b, num_groups={groups})", x=F(2, 4, 3), g=P(4), b=F(4), compat=CHANNELS,
        want=normal + "y.reshape(x.shape) * g[:, None] + b[:, None]", **near)  # fmt: skip
add("nd.InstanceNorm(x, g, b)", x=F(2, 3, 5), g=P(3), b=F(3), **near)
add("nd.InstanceNorm(x, g, b, eps=0.1)", x=F(2, 3, 2, 4), g=P(3), b=F(3), **near)
add("nd.L2Normalization(x, eps=0.1)", x=F(3, 4))
for args in ["", ", margin=0.5", ", regularization_coefficient=2.0", ", use_linear=True"]:
    add(f"nd.SVMOutput(x, y{args})", x=F(3, 4), y=V(1, 0, 3), grad=("x",))

add("nd.all_finite(x)", x=F(3), grad=False)
add("nd.all_finite(x)", x=V(1, np.inf), grad=False)
add("nd.multi_all_finite(x, y, num_arrays=2)", x=F(3), y=V(1, np.nan), grad=False)
add("nd.multi_sum_sq(x, y, num_arrays=2)", x=F(3), y=F(2, 2), grad=False)
add("nd.histogram(x, bins=4, range=(-2, 2))", x=F(9), grad=False, trace=False)
add("nd.khatri_rao(x, y)", x=F(2, 3), y=F(4, 3), grad=False)
add("nd.khatri_rao(x, y, z)", x=F(2, 2), y=F(3, 2), z=F(2, 2), grad=False)
add("nd.ravel_multi_index(i, shape=(3, 4))", i=V(0, 2, 1, 3, shape=(2, 2)), grad=False)
add("nd.unravel_index(i, shape=(3, 4))", i=V(0, 5, 11), grad=False)
add("nd.unravel_index(i, shape=(2, 3, 4))", i=V(0, 5, 23, 12, shape=(2, 2), dtype="int32"), compat="MXNet: 1-D only",
    want="np.array(np.unravel_index(i, (2, 3, 4)))")  # fmt: skip
add("nd.fill_element_0index(x, y, i)", x=F(3, 4), y=F(3), i=V(0, 3, 1), grad=False)
add("nd.onehot_encode(i, y)", i=V(0, 3, 1), y=F(3, 4), grad=False, trace=False)
add("nd.from_numpy(x.asnumpy())", x=F(3, 4), grad=False, trace=False)
add("nd.from_dlpack(nd.to_dlpack_for_read(x))", x=F(3, 4), grad=False, trace=False)
add("nd.linalg_gemm(x, y, z)", x=F(3, 4), y=F(4, 5), z=F(3, 5))
add("nd.linalg.syrk(x, alpha=0.5)", x=F(3, 4), tag="more")
add("nd.linalg.syrk(x, transpose=True)", x=F(2, 3, 4), tag="more")

special = V(np.nan, np.inf, -np.inf, 0.0, 1.0)
for name in ["isnan", "isinf", "isfinite"]:
    add(f"nd.contrib.{name}(x)", x=special, grad=False)
add("nd.contrib.div_sqrt_dim(x)", x=F(2, 9))
add("nd.contrib.arange_like(x, start=2, step=0.5)", x=F(2, 3), grad=False)
add("nd.contrib.arange_like(x, axis=1)", x=F(2, 3), grad=False, tag="more")
add("nd.contrib.boolean_mask(x, i)", x=F(4, 3), i=V(1, 0, 1, 1), grad=("x",), trace=False)
add("nd.contrib.gradientmultiplier(x, scalar=-0.5)", x=F(3))
add("nd.contrib.index_array(x)", x=F(2, 3), grad=False)
add("nd.contrib.index_array(x, axes=(1,))", x=F(2, 3), grad=False)
add("nd.contrib.index_copy(x, i, y)", x=F(4, 3), i=V(0, 2), y=F(2, 3), grad=("x", "y"))
add("nd.contrib.quadratic(x, a=1, b=2, c=3)", x=F(3))
add("nd.contrib.round_ste(x)", x=F(5))
add("nd.contrib.sign_ste(x)", x=F(5))
add("nd.contrib.allclose(x, y)", x=V(1, 2), y=V(1, 2.00001), grad=False)
