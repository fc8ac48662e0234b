"""``HYBRIDC_POISON``: programs fill memory that holds nothing of use, and compute what they compute anyway."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
import hybridc as mx
from hybridc.gluon.nn import HybridLambda

net = HybridLambda(lambda F, x: F.dot(F.exp(x), F.sort(x)))
x = mx.nd.array(np.arange(16.0).reshape(4, 4) / 8)
want = net(x).asnumpy()
print(net.trace(x).optimize().lower("numpy"))
net.hybridize()
for _ in range(2):
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-6)
"""


@pytest.mark.parametrize("value", ["1", "0"])
def test_the_option(value):
    environment = {**os.environ, "HYBRIDC_POISON": value}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert ("] = 255" in done.stdout) == (value == "1")
    assert ("arena[:] = 255" in done.stdout) == (value == "1")


@pytest.mark.parametrize("value", ["1", "0"])
def test_native_programs(value):
    environment = {**os.environ, "HYBRIDC_POISON": value, "HYBRIDC_TARGET": "llvm"}
    command = [sys.executable, "-c", PROGRAM.replace('lower("numpy")', 'lower("llvm")')]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert ("\npoison\n" in done.stdout) == (value == "1")
