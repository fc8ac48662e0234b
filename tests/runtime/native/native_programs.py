"""Native functions and plans for the tests of the runtime."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

from hybridc.runtime.native import NativePlan, NativeRegion, PlainArray, Position
from tests.lower.llvm.loops import region
from tests.lower.llvm.native import compiled

ROOT = Path(__file__).resolve().parents[3]

ADD = compiled(
    region(
        "%x: memref<?xf32>, %y: memref<?xf32>, %a: f32",
        """
    scf.for %i = %lo to %hi step %one {
      %v = memref.load %x[%i] : memref<?xf32>
      %w = arith.addf %v, %a : f32
      memref.store %w, %y[%i] : memref<?xf32>
    }""",
    )
)
# y[i] += 1: tells how often an iteration was done.
COUNT = compiled(
    region(
        "%y: memref<?xi32>",
        """
    %c = arith.constant 1 : i32
    scf.for %i = %lo to %hi step %one {
      %v = memref.load %y[%i] : memref<?xi32>
      %w = arith.addi %v, %c : i32
      memref.store %w, %y[%i] : memref<?xi32>
    }""",
    )
)
# Writes i into all 64 cells of its scratch, and then their sum into y[i]: wrong if two threads share the scratch.
SCRATCH = compiled(
    region(
        "%y: memref<?xi64>",
        """
    %cells = arith.constant 64 : index
    %s = memref.view %scratch[%zero][%cells] : memref<?xi8> to memref<?xi64>
    %none = arith.constant 0 : i64
    scf.for %i = %lo to %hi step %one {
      %number = arith.index_cast %i : index to i64
      scf.for %j = %zero to %cells step %one {
        memref.store %number, %s[%j] : memref<?xi64>
      }
      %sum = scf.for %j = %zero to %cells step %one iter_args(%t = %none) -> (i64) {
        %v = memref.load %s[%j] : memref<?xi64>
        %u = arith.addi %t, %v : i64
        scf.yield %u : i64
      }
      memref.store %sum, %y[%i] : memref<?xi64>
    }""",
    )
)
# y[i] = hi - lo: how large the piece was.
PIECE = compiled(
    region(
        "%y: memref<?xi64>",
        """
    %length = arith.subi %hi, %lo : index
    %number = arith.index_cast %length : index to i64
    scf.for %i = %lo to %hi step %one {
      memref.store %number, %y[%i] : memref<?xi64>
    }""",
    )
)


def f32(value: float) -> bytes:
    """A cell with a float32."""
    return np.float32(value).tobytes().ljust(8, b"\0")


def add_plan(size: int, grain: int = 1 << 40, threads: int = 1, work: float = 0.0) -> NativePlan:
    """``y = x + 2`` in two steps, the first of them into the arena."""
    return NativePlan(
        inputs=[PlainArray((size,), "float32")],
        results=[PlainArray((size,), "float32")],
        steps=[
            NativeRegion(ADD, (Position(1), Position(0, 64)), f32(0.5), size, grain),
            NativeRegion(ADD, (Position(0, 64), Position(2)), f32(1.5), size, grain),
        ],
        arena=64 + 4 * size,
        threads=threads,
        work=work,
    )


def python(program: str, **variables: str) -> str:
    """What a new process prints that runs this program; it must end well and in time."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


class PythonCode:
    """A native function that calls Python, from whatever thread runs it: only for plans that run without the lock."""

    _TYPE = ctypes.CFUNCTYPE(
        None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    )

    def __init__(self, function):
        self._callback = self._TYPE(function)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value
