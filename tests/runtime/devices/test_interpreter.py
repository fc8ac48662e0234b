"""The interpreter as a device: NumPy's memory by address."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.errors import DeviceMemoryError
from hybridc.runtime.devices.interpreter import Interpreter
from tests.runtime.devices.sources import ADD, F32, add_config

pytestmark = pytest.mark.triton


def test_a_launch_between_its_buffers() -> None:
    device = Interpreter()
    n = 21
    x, y, out = (device.allocate(4 * n) for _ in range(3))
    assert all(b.pointer % 256 == 0 for b in (x, y, out))
    device.upload(x.pointer, np.arange(n, dtype=F32))
    device.upload(y.pointer, np.ones(n, F32))
    before, after = device.event(), device.event()
    before.record()
    device.launch(ADD, add_config(n), [x.pointer, y.pointer, out.pointer], [n, 5])
    after.record()
    device.copy(x.pointer, out.pointer + 4, 4 * (n - 1))
    device.synchronise()
    got = np.zeros(n, F32)
    device.download(got, out.pointer)
    np.testing.assert_array_equal(got, np.arange(n) + 5.0)
    device.download(got, x.pointer)
    np.testing.assert_array_equal(got, [*(np.arange(1, n) + 5.0), n - 1])
    assert after.since(before) > 0


def test_no_memory_left() -> None:
    with pytest.raises(DeviceMemoryError, match=f"no {1 << 60} bytes of memory"):
        Interpreter().allocate(1 << 60)
