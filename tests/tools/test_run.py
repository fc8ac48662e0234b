"""``python -m hybridc run``: programs that import MXNet."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hybridc as mx

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys

import mxnet as mx
import mxnet.ndarray as F
import mxnet.symbol.linalg
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from mxnet.gluon.block import HybridBlock

import hybridc

assert mx.__version__ == hybridc.mxnet_version == "1.9.1"
assert F is nd is mx.nd is hybridc.nd
assert mx.gluon is hybridc.gluon and HybridBlock is gluon.HybridBlock
assert mxnet.symbol.linalg.gemm2(mx.sym.var("a"), mx.sym.var("b")).list_arguments() == ["a", "b"]
assert np.float is float and np.asscalar(np.ones(1)) == 1
print(sys.argv[1:], __name__, nn.Dense.__module__)
"""

# What Python and NumPy had in MXNet's time, and lack since 3.8 to 3.12 and 1.20 to 2.4.
OLDER_NAMES = """
import base64, collections, fractions, imp, inspect, math, threading, time
import mxnet as mx
import numpy as np

assert isinstance({}, collections.Mapping) and issubclass(list, collections.Sequence)
assert time.clock() >= 0 and fractions.gcd(12, 18) == 6
spec = inspect.getargspec(lambda a, b=1, *c, **d: 0)
assert (spec.args, spec.varargs, spec.keywords, spec.defaults) == (["a", "b"], "c", "d", (1,)) == tuple(spec)
assert base64.decodestring(base64.encodestring(b"x")) == b"x" and not threading.Thread().isAlive()
assert imp.reload(collections) is collections and imp.new_module("m").__name__ == "m"

loss = mx.nd.array([1.0, 3.5]).mean().asnumpy()
assert loss.shape == (1,) and (float(loss), int(loss), complex(loss), "%.2f" % loss) == (2.25, 2, 2.25, "2.25")
assert math.sqrt(np.full((1, 1), 9)) == 3 and float(np.array(2)) == 2
values = np.zeros(2)
values[1] = loss
assert values.tolist() == [0, 2.25]
for convert in (float, int):
    try:
        convert(values)
    except TypeError as error:
        assert "only size-1 arrays" in str(error)
    else:
        raise AssertionError
assert np.fromstring(b"\\x01\\x02", dtype=np.uint8).tolist() == [1, 2]
assert np.fromstring("1 2", dtype=int, sep=" ").tolist() == [1, 2]
assert np.array([1, 2], copy=False).tolist() == [1, 2] and np.array(values, copy=False) is values
assert np.array([3], "i2").tostring() == b"\\x03\\0" and np.array([3, 7]).ptp() == 4
values.itemset(0, 5)
assert values.item(0) == 5 and values.newbyteorder().newbyteorder().tolist() == [5, 2.25]
assert np.sctypes["float"][0] is np.float16 and np.mat([[1]]).shape == (1, 1)
print("done")
"""

WORKERS = """
import multiprocessing

import mxnet as mx


def total(n):
    return float(mx.nd.ones((n,)).sum().asscalar())


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(total, [2, 3]))
"""


def run(*arguments, cwd, **environment):
    command = [sys.executable, "-m", "hybridc", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def test_a_program_that_imports_mxnet_gets_hybridc(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    done = run("run", file, "--epochs", "3", cwd=tmp_path)
    assert done.stdout == "['--epochs', '3'] __main__ hybridc.gluon.nn.basic_layers\n", done.stderr


def test_programs_have_the_names_of_their_time(tmp_path):
    file = tmp_path / "older.py"
    file.write_text(OLDER_NAMES)
    done = run("run", file, cwd=tmp_path)
    assert done.stdout == "done\n", done.stderr


def test_a_module_code_and_processes_of_the_program_get_it_too(tmp_path):
    (tmp_path / "child.py").write_text("import mxnet.gluon as g\nprint(g.__name__)")
    code = "import subprocess, sys, mxnet; subprocess.run([sys.executable, 'child.py'], check=True)"
    for arguments in (["-m", "child"], ["-c", code]):
        done = run("run", *arguments, cwd=tmp_path)
        assert done.stdout == "hybridc.gluon\n", done.stderr


def test_processes_of_multiprocessing_get_it_too(tmp_path):
    file = tmp_path / "workers.py"
    file.write_text(WORKERS)
    assert run("run", file, cwd=tmp_path).stdout == "[2.0, 3.0]\n"


def test_the_program_s_exit_status_is_the_status(tmp_path):
    assert run("run", "-c", "raise SystemExit(7)", cwd=tmp_path).returncode == 7


@pytest.mark.parametrize("arguments", [[], ["run"], ["walk", "train.py"]])
def test_a_wrong_command_says_how_it_is_used(arguments, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: python -m hybridc run")


def test_an_isolated_python_is_refused(tmp_path):
    command = [sys.executable, "-E", "-c", "import sys; sys.path.insert(0, sys.argv.pop()); "
               "from hybridc.__main__ import main; main(['run', '-c', ''])", str(ROOT)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "-E or -I" in done.stderr


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("ndarray", "nd"),
        ("ndarray.ndarray", "nd"),
        ("ndarray.random", "nd.random"),
        ("sym", "symbol"),
        ("sym.random", "symbol.random"),
        ("init", "initializer"),
        ("viz", "visualization"),
        ("img.image", "image"),
        ("numpy.multiarray", "np"),
        ("numpy.fallback_linalg", "np.linalg"),
        ("ndarray.numpy.random", "np.random"),
        ("ndarray.numpy_extension", "npx"),
        ("sym.numpy", "symbol.np"),
        ("symbol.numpy_extension", "symbol.npx"),
        ("numpy_dispatch_protocol", "np.protocol"),
        ("numpy_op_signature", "np.protocol"),
    ],
)
def test_other_names_of_modules_are_the_modules(name, real):
    module = importlib.import_module(f"hybridc.{name}")
    assert module is importlib.import_module(f"hybridc.{real}")
    assert module.__name__ == f"hybridc.{real}"
    assert module.__spec__ is None or module.__spec__.name == f"hybridc.{real}"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("import hybridc.gluon.nothing_like_this", "mx.gluon has no attribute 'nothing_like_this'"),
        ("from hybridc.ndarray import fulll", "did you mean full"),
    ],
)
def test_imports_of_what_there_is_not_say_so_in_our_words(statement, said):
    with pytest.raises(ModuleNotFoundError, match=said):
        exec(statement, {})


def test_without_run_numpy_stays_as_it_is():
    code = "import hybridc, numpy; assert not hasattr(numpy, 'float')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    assert mx.mxnet_version == "1.9.1"
