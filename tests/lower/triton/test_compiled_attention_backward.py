"""The backward of attention compiled without a GPU: nothing spills, shared memory suffices, tensor cores multiply."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.tools.triton_report import AMD_MI300, NVIDIA_A100, NVIDIA_H100, SHARED, fitting, report
from tests.lower.triton.printed import launches_of_attention
from tests.lower.triton.test_attention import causal, masked, plain
from tests.lower.triton.test_attention_backward import fused, lowered

pytestmark = [pytest.mark.triton, pytest.mark.long]


FUNCTIONS = {
    "f16": (plain, 64, "float16"),
    "f16, 128": (plain, 128, "float16"),
    "f16, a mask": (masked, 64, "float16"),
    "f16, causal": (causal, 64, "float16"),
    "f32": (plain, 64, "float32"),
}
COMPILED = {
    NVIDIA_H100: ("f16", "f16, 128", "f16, a mask", "f32"),
    NVIDIA_A100: ("f16", "f16, 128", "f16, causal"),
    AMD_MI300: ("f16",),
}


def kernel_launches(function, size, dtype):
    """The two launches of 64 attentions of 2048 rows."""
    arrays = [np.ones((64, 2048, size), dtype)] * 3
    if function is masked:
        arrays.append(np.ones((1, 2048, 2048), dtype))
    (kernel,) = fused(lowered(function, arrays))
    return launches_of_attention(kernel, {}).kernel_launches


@pytest.fixture(scope="module")
def compiled():
    """What became of all of them, by name and target."""
    known = {name: kernel_launches(*of) for name, of in FUNCTIONS.items()}
    found = []
    for target, names in COMPILED.items():
        work = [(name, p) for name in names for p in known[name]]
        made = report([(p.function, fitting(p.configs, target), p.numbers) for _, p in work], [target])
        found += [(name, target, m) for (name, _), m in zip(work, made, strict=True)]
    return found


def test_nothing_spills_and_shared_memory_suffices(compiled):
    for _, target, made in compiled:
        assert made.spilled == 0, made
        assert made.shared <= SHARED[target], made


def test_arrays_are_accessed_16_bytes_at_a_time(compiled):
    """All but numbers of a row, or of a key, which are few."""
    for _, target, made in compiled:
        if target != AMD_MI300:
            assert made.wide > made.narrow, made


def test_tensor_cores_multiply(compiled):
    for name, _, made in compiled:
        assert (made.tensor > 0) == name.startswith("f16"), made
