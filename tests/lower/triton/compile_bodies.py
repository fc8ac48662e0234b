"""Compiles the bodies of tests for a GPU that need not be there: prints the assembler text of each, as JSON.

A process of its own, as one that interprets Triton's functions cannot compile them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from hybridc.lower.triton.triton_function import Config
from hybridc.runtime.devices.nvidia.compiled import compiled
from tests.lower.triton.bodies import function_of
from tests.lower.triton.steps import ROUGH, of_numbers, of_steps, reductions, stages_of

HOPPER = (9, 0)


def functions():
    """What is compiled, by name: every step in single precision, and what is computed otherwise in other dtypes."""
    plain = {kind: [s for s in of_steps(kind) if s not in ROUGH] for kind in ("float16", "int32")}
    found = {"float32": stages_of("float32", of_steps("float32"), 32), "float64": stages_of("float64", ROUGH, 32)}
    found["exp float16"] = stages_of("float16", ["exp"], 32)
    found["numbers"] = of_numbers()
    found |= {kind: stages_of(kind, steps, 32) for kind, steps in plain.items()}
    for kind in ("float16", "float32", "float64", "uint8", "bool"):
        found[f"{kind} reduced"] = [kernel_op for _, kernel_op in reductions(kind, (4, 16))]
    return {name: function_of(kernel_ops) for name, kernel_ops in found.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        made = {name: compiled(f, Config((), (1, 1, 1), 1), HOPPER, 0).asm["ptx"] for name, f in functions().items()}
    json.dump(made, sys.stdout)
