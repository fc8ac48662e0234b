"""A report of Triton's code of functions, without a GPU: registers, shared memory, wide accesses, tensor cores.

``report`` compiles in a process of its own, as one in which functions are interpreted cannot compile.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hybridc.errors import UnsupportedError
from hybridc.ground.records import dataclass
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.nvidia.compiled import DIVISIBLE, compiled

NVIDIA_A100, NVIDIA_H100, AMD_MI300 = "sm_80", "sm_90", "gfx942"
# The GPUs, and their shared memory per program in bytes.
SHARED = {NVIDIA_A100: 163 << 10, NVIDIA_H100: 227 << 10, AMD_MI300: 64 << 10}
TARGETS = tuple(SHARED)

_WIDE_PTX = r"\.v4\.[bfus]32|\.v2\.[bfus]64|\.v8\.[bfus]16"


@dataclass(frozen=True)
class Compiled:
    """A function compiled in one configuration for one target.

    ``registers`` are those of a thread, ``spilled`` the bytes of them that went to memory, ``shared`` the bytes of a
    program's shared memory. ``wide`` counts the accesses of 16 bytes to global memory, ``narrow`` the others,
    ``tensor`` the instructions of tensor cores, and ``factors`` names the element types that these multiply.
    """

    function: str
    config: str
    target: str
    registers: int
    spilled: int
    shared: int
    wide: int
    narrow: int
    tensor: int
    factors: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.function} [{self.config}] {self.target}: {self.registers} registers, {self.spilled} bytes spilled, "
            f"{self.shared} bytes shared, {self.wide} accesses of 16 bytes, {self.narrow} others, "
            f"{self.tensor} tensor-core instructions, compiled in {self.seconds:.2f} s"
        )


Work = tuple[TritonFunction, Config, tuple[int, ...]]


def fitting(configs: Sequence[Config], target: str) -> Config:
    """The configuration that is expected to be the fastest of those that fit a GPU."""
    return next((c for c in configs if c.shared <= SHARED[target]), configs[-1])


def report(work: Iterable[Work], targets: Sequence[str] = (NVIDIA_H100,)) -> list[Compiled]:
    """The compiled form of each function in its configuration and with its scalars, for each target.

    All arrays begin at multiples of 16 bytes.
    """
    given = [
        {"function": _written(f), "config": asdict(c), "numbers": list(n), "targets": list(targets)} for f, c, n in work
    ]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "hybridc.tools.triton_report"]
    done = subprocess.run(
        command, input=json.dumps(given), env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnsupportedError(f"Triton did not compile: {done.stderr.strip()}")
    return [Compiled(**each) for each in json.loads(done.stdout)]


def _written(function: TritonFunction) -> dict[str, Any]:
    return {**asdict(function), "pointers": [dtype.name for dtype in function.pointers]}


def _read(given: dict[str, Any]) -> tuple[TritonFunction, Config]:
    function, config = given["function"], given["config"]
    made = TritonFunction(
        function["name"],
        function["source"],
        tuple(np.dtype(name) for name in function["pointers"]),
        tuple(function["numbers"]),
        tuple(function["constants"]),
    )
    constants = tuple((name, value) for name, value in config["constants"])
    x, y, z = config["grid"]
    return made, Config(constants, (x, y, z), config["warps"], config["stages"])


def _compile(function: TritonFunction, config: Config, numbers: Sequence[int], target: str) -> Compiled:
    capability = (int(target[3]), int(target[4:])) if target.startswith("sm_") else target
    begun = time.perf_counter()
    first = len(function.pointers)
    divisible = (1 << first) - 1 | sum(1 << first + i for i, n in enumerate(numbers) if n % DIVISIBLE == 0)
    made = compiled(function, config, capability, divisible)
    seconds = time.perf_counter() - begun
    measure = _amd if isinstance(capability, str) else _nvidia
    shared = made.metadata.shared
    return Compiled(function.name, str(config), target, shared=shared, seconds=seconds, **measure(made.asm))


def _nvidia(asm: dict[str, Any]) -> dict[str, Any]:
    """Figures of a binary for NVIDIA GPUs, and of its assembly."""
    ptx: str = asm["ptx"]
    used = dict(re.findall(r"(REG|STACK):(\d+)", _resources(asm["cubin"])))
    moves = re.findall(r"\b(?:ld|st)\.global[\w.:]*", ptx)
    copies = re.findall(r"cp\.async\.c[ag]\.shared\.global.*?,\s*(0x[0-9a-f]+|\d+)[,;]", ptx)
    wide = sum(re.search(_WIDE_PTX, move) is not None for move in moves)
    wide_copies = sum(int(size, 0) == DIVISIBLE for size in copies)
    multiplying = re.findall(r"\b(?:wgmma\.mma_async|mma\.sync)[\w.]*?\.[fs](?:16|32|64)\.(\w+)", ptx)
    return {
        "registers": int(used["REG"]),
        "spilled": int(used["STACK"]),
        "wide": wide + wide_copies,
        "narrow": len(moves) + len(copies) - wide - wide_copies,
        "tensor": len(re.findall(r"\b(?:wgmma\.mma_async|mma\.sync)", ptx)),
        "factors": " ".join(sorted(set(multiplying))),
    }


def _resources(binary: bytes) -> str:
    """The output of a tool of Triton's package for a binary."""
    import triton

    tool = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _amd(asm: dict[str, Any]) -> dict[str, Any]:
    """Figures of a binary for AMD GPUs, from its assembly."""
    text: str = asm["amdgcn"]
    moves = re.findall(r"\b(?:global|buffer)_(?:load|store)_(\w+)", text)
    wide = sum(move.startswith("dwordx4") for move in moves)
    spilled = [int(n) for n in re.findall(r"\.(?:s|v)gpr_spill_count:\s*(\d+)", text)]
    registers = [int(n) for n in re.findall(r"\.vgpr_count:\s*(\d+)", text)]
    return {
        "registers": max(registers, default=0),
        "spilled": 4 * sum(spilled),
        "wide": wide,
        "narrow": len(moves) - wide,
        "tensor": len(re.findall(r"\bv_mfma", text)),
        "factors": " ".join(sorted(set(re.findall(r"\bv_mfma_\w+x\d+(?:_\d+b)?_([a-z0-9]+)", text)))),
    }


def main() -> None:
    """Compile what is described on the standard input, and describe what became of it."""
    made: list[dict[str, Any]] = []
    for given in json.load(sys.stdin):
        function, config = _read(given)
        made += [asdict(_compile(function, config, given["numbers"], target)) for target in given["targets"]]
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
