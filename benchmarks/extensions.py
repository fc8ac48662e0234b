"""What a call of a library's operator costs over the library's own function: ``python benchmarks/extensions.py``.

The operator is the matrix product of ``examples/extensions/lib_custom_op/gemm_lib.cc``, compiled when this starts. The
floor is its C function called with arrays and everything else prepared.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx
from benchmarks.overhead import microseconds
from hybridc.dialects import operator_registry
from hybridc.library.extension_compute import Frame

SOURCE = Path(__file__).resolve().parents[1] / "examples" / "extensions" / "lib_custom_op" / "gemm_lib.cc"
ALLOWED = 15.0  # µs over the kernel


class Gemm(mx.gluon.HybridBlock):
    """A block of one call."""

    def hybrid_forward(self, F: Any, a: Any, b: Any) -> Any:
        return F.my_gemm(a, b)


def load() -> None:
    """Compile the example and load it."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/libgemm_lib.so"
        include = f"-I{mx.library.include_path()}"
        command = ["g++", "-O3", "-std=c++11", "-shared", "-fPIC", include, str(SOURCE), "-o", path]
        subprocess.run(command, check=True)
        mx.library.load(path, verbose=False)


class Prepared:
    """The library's function on some arrays, without anything around it."""

    def __init__(self, a: Any, b: Any) -> None:
        op: Any = operator_registry.operator("extension.my_gemm").bind()
        out = np.empty((a.shape[0], b.shape[1]), np.float32)
        ins = ((a.shape, a.dtype), (b.shape, b.dtype))
        frame = Frame(op.call, op.OP.forward["cpu"], ins, ((out.shape, out.dtype),))
        frame.run([a, b], [out])
        self.call = frame._run
        self._keep = frame, a, b, out  # the function has their addresses only


def measured(n: int) -> tuple[float, float, float]:
    """µs of an eager call on n x n matrices, of a hybridized one, of the function alone."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    x, y = mx.nd.array(a), mx.nd.array(b)
    block = Gemm()
    block.hybridize()
    block(x, y)
    prepared = Prepared(a, b)
    eager, hybridized, alone = microseconds(lambda: mx.nd.my_gemm(x, y), lambda: block(x, y), prepared.call)
    return eager, hybridized, alone


def main() -> None:
    load()
    print("| my_gemm, µs | call | C function alone | difference |\n|---|---|---|---|")
    worst = 0.0
    for n in (2, 16, 64):
        eager, hybridized, alone = measured(n)
        for name, took in (("eager", eager), ("hybridized", hybridized)):
            print(f"| {name}, {n}x{n} | {took:.2f} | {alone:.2f} | {took - alone:.2f} |")
            worst = max(worst, took - alone)
    print(f"\nat most {worst:.1f} µs over the function; allowed are {ALLOWED:.0f}")
    sys.exit(worst > ALLOWED)


if __name__ == "__main__":
    main()
