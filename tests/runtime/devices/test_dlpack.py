"""DLPack shares a device's memory with other libraries, both ways."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import hybridc as mx
from hybridc import nd
from hybridc.errors import MXNetError
from hybridc.runtime.devices import dlpack
from hybridc.runtime.devices.dlpack import array_of, capsule_of
from hybridc.runtime.devices.interpreter import Interpreter
from tests.runtime.devices.simulated import simulated_gpu

pytestmark = pytest.mark.triton


GPU = mx.gpu(0)


class Foreign:
    """Another library's tensor on a card."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.streams: list[int | None] = []

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        return self._array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_memory_of_a_card_is_shared() -> None:
    before = len(dlpack._GIVEN)
    with simulated_gpu():
        x = nd.array([[1, 2, 3], [4, 5, 6]], ctx=GPU)
        assert x.__dlpack_device__() == (2, 0)
        tensor = Foreign(x)
        y = nd.from_dlpack(tensor)
        assert tensor.streams == [1]
        assert (y.context, y.shape, y.dtype) == (GPU, (2, 3), np.float32)
        y[0] = 7
        np.testing.assert_array_equal(x.asnumpy(), [[7, 7, 7], [4, 5, 6]])
        assert len(dlpack._GIVEN) == before + 1
        del x, tensor
        np.testing.assert_array_equal((y + 1).asnumpy(), [[8, 8, 8], [5, 6, 7]])
        del y
        gc.collect()
        assert len(dlpack._GIVEN) == before


def test_a_capsule_of_a_card_tells_where_it_is() -> None:
    with simulated_gpu():
        x = nd.array([[1, 2, 3]], ctx=GPU)
        y = nd.from_dlpack(nd.to_dlpack_for_write(x))
        assert y.context == GPU
        y[:] = 4
        np.testing.assert_array_equal(x.asnumpy(), [[4, 4, 4]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_numpy_reads_what_is_given(dtype: str) -> None:
    x = Interpreter().put(np.array([[1, 0], [3, 1]]).astype(dtype))

    class Given:
        def __dlpack__(self, **_: Any) -> Any:
            return capsule_of(x)

        def __dlpack_device__(self) -> tuple[int, int]:
            return dlpack.device_of(x)

    found = np.from_dlpack(Given())
    assert found.dtype == dtype
    x.host()[1, 1] = 0
    np.testing.assert_array_equal(found, np.array([[1, 0], [3, 0]]).astype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", "int64", "bool"])
def test_what_numpy_gives_is_read(dtype: str) -> None:
    x = np.array([[1, 0, 2], [3, 1, 0]]).astype(dtype)
    found = array_of(x, Interpreter())
    assert (found.dtype, found.shape) == (x.dtype, x.shape)
    x[0, 0] = 0
    np.testing.assert_array_equal(found.host(), x)
    np.testing.assert_array_equal(array_of(x.T, Interpreter()).host(), x.T)
    np.testing.assert_array_equal(array_of(x[1:, ::2], Interpreter()).host(), x[1:, ::2])


def test_a_capsule_is_used_once() -> None:
    before = len(dlpack._GIVEN)
    capsule = capsule_of(Interpreter().put(np.ones(3)))
    array_of(capsule, Interpreter())
    with pytest.raises(MXNetError, match="this capsule was used before"):
        array_of(capsule, Interpreter())
    unused = capsule_of(Interpreter().put(np.ones(3)))
    del capsule, unused
    gc.collect()
    assert len(dlpack._GIVEN) == before


def test_a_tensor_of_another_device() -> None:
    with simulated_gpu() as card, pytest.raises(MXNetError, match="the tensor is not on <Cuda 0: Stub>"):
        array_of(np.ones(3).__dlpack__(), card)
