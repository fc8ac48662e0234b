"""The examples of extension libraries, made as their Makefiles say, do in hybridc what they do in MXNet 1.9.1."""

import os
import subprocess
import sys

from check_in_mxnet import CHECKS, LIBRARIES, ROOT
from libraries import EXAMPLES
from thunks import made

GEMM = """\
-------- arrays

[[ 50.]
 [122.]]
<NDArray 2x1 @cpu(0)>
state_gemm: forward 101

[[ 50.]
 [122.]]
<NDArray 2x1 @cpu(0)>
-------- arrays, with gradients

[[7. 8. 9.]
 [7. 8. 9.]]
<NDArray 2x3 @cpu(0)>

[[5.]
 [7.]
 [9.]]
<NDArray 3x1 @cpu(0)>
-------- symbols
"""


def run(*arguments):
    """A process of its own: one of the libraries replaces a built-in operator."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_as_in_mxnet(tmp_path):
    for name, folder in LIBRARIES.items():
        (tmp_path / f"lib{name}.so").symlink_to(made(folder, name).path)
    done = run(ROOT / "tests" / "extensions" / "check_in_mxnet.py", "--loads", "hybridc", tmp_path)
    told = [line for line in done.stdout.split("\n") if line.startswith("hybridc")]
    assert told == [f"hybridc: {name}: as it must be" for name in CHECKS], done.stderr


def test_gemm_script(tmp_path):
    (tmp_path / "libgemm_lib.so").symlink_to(made("lib_custom_op", "gemm_lib").path)
    done = run(EXAMPLES / "lib_custom_op" / "test_gemm.py", tmp_path)
    assert done.stdout.startswith(GEMM)
    assert [line for line in done.stdout.split("\n") if line.startswith("state_gemm")] == [
        f"state_gemm: forward {n}" for n in (101, 201, 202)
    ]
    assert "Found 2 operators in library" in done.stderr
