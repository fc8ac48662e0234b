"""Attention compiled without a GPU: nothing spills, memory is accessed 16 bytes at a time, tensor cores multiply."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.tools.triton_report import AMD_MI300, NVIDIA_A100, NVIDIA_H100, report
from tests.lower.triton.printed import launches_of_attention
from tests.lower.triton.test_attention import fused, lowered, masked, plain
from tests.lower.triton.test_compiled_matmul import SHARED

pytestmark = [pytest.mark.triton, pytest.mark.long]


def function(attention, batches, length, size, dtype):
    """The function of an attention with its first configuration."""
    arrays = [np.ones((batches, length, size), dtype)] * 3
    if attention is masked:
        arrays.append(np.ones((1, length, length), dtype))
    (kernel,) = fused(lowered(attention, *arrays))
    (kernel_launch,) = launches_of_attention(kernel, {}).kernel_launches
    return kernel_launch.function, kernel_launch.configs[0], kernel_launch.numbers


@pytest.fixture(scope="module")
def compiled():
    """What became of all of them, by name and target."""
    work = {
        "f16": function(plain, 64, 2048, 64, "float16"),
        "f16, a mask": function(masked, 64, 2048, 64, "float16"),
        "f32": function(plain, 64, 2048, 64, "float32"),
    }
    found = {}
    for target, names in ((NVIDIA_H100, [*work]), (NVIDIA_A100, ["f16"]), (AMD_MI300, ["f16"])):
        for name, made in zip(names, report([work[n] for n in names], [target]), strict=True):
            found[name, target] = made
    return found


def test_nothing_spills_and_shared_memory_suffices(compiled):
    for (_, target), made in compiled.items():
        assert made.spilled == 0, made
        assert made.shared <= SHARED.get(target, 1 << 20), made


def test_memory_is_accessed_16_bytes_at_a_time(compiled):
    for (_, target), made in compiled.items():
        assert made.wide > 3, made
        if target != AMD_MI300:
            assert made.narrow == 0, made


def test_tensor_cores_multiply(compiled):
    for (name, _), made in compiled.items():
        assert (made.tensor > 0) == name.startswith("f16"), made
