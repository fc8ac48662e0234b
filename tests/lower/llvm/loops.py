"""Parallel regions in loop form, written as text around a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.lower.llvm.native import run

TYPES = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bool": "i1",
    "int8": "i8",
    "int32": "i32",
    "int64": "i64",
}


def region(arguments: str, body: str, functions: str = "") -> str:
    """A module with the parallel region of these arguments; ``%zero`` and ``%one`` are indices."""
    given = f"{arguments}, " if arguments else ""
    return f"""
builtin.module {{
  func.func @region({given}%lo: index, %hi: index, %scratch: memref<?xi8>) attributes {{hybrid.region}} {{
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    {body}
    func.return
  }}
  {functions}
}}
"""


def elementwise(inputs: Sequence[str], result: str, body: str, functions: str = "") -> str:
    """``%r`` of ``%0, %1, ...`` for every element; types as MLIR writes them."""
    arguments = ", ".join([*(f"%x{i}: memref<?x{t}>" for i, t in enumerate(inputs)), f"%y: memref<?x{result}>"])
    loads = "\n".join(f"%{i} = memref.load %x{i}[%i] : memref<?x{t}>" for i, t in enumerate(inputs))
    loop = f"""
    scf.for %i = %lo to %hi step %one {{
      {loads}
      {body}
      memref.store %r, %y[%i] : memref<?x{result}>
    }}"""
    return region(arguments, loop, functions)


def compute(body: str, result: Any, *arrays: np.ndarray[Any, Any], functions: str = "") -> np.ndarray[Any, Any]:
    """What a loop with this body makes of arrays of one length."""
    kind = np.dtype(result)
    source = elementwise([TYPES[a.dtype.name] for a in arrays], TYPES[kind.name], body, functions)
    count = len(arrays[0])
    return run(source, [*arrays, np.zeros(count, kind)], extent=count, cuts=[0, count // 3])[-1]
