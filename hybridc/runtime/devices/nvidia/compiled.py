"""Triton functions compiled for a GPU, cached on the disk: a cache hit does not even import Triton."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hybridc.dtypes import TYPES
from hybridc.errors import UnsupportedError
from hybridc.ground.machine import GPU
from hybridc.ground.records import dataclass
from hybridc.ground.store import keep, kept
from hybridc.lower.triton.triton_function import QUOTES, Config, TritonFunction
from hybridc.runtime.triton_kernel import load_kernel, triton

# Pointers and integers divisible by this let Triton make accesses of so many bytes.
DIVISIBLE = GPU.access
# Compile options, a part of the cache key.
# No contraction of a*b + c: formulas write fma where they mean it, and differences of equal values are zero.
_OPTIONS = {"enable_fp_fusion": False}


@dataclass(frozen=True)
class MachineCode:
    """The machine code of a kernel, with the facts that a launch needs.

    It takes ``parameters`` of at most eight bytes: the function's pointers and scalars, then zeros.
    """

    entry: str
    warps: int
    shared: int
    parameters: int
    code: bytes


def binary(function: TritonFunction, config: Config, capability: tuple[int, int], divisible: int) -> MachineCode:
    """The code of a function in one of its configurations for a compute capability.

    Bit i of ``divisible``: the i-th argument, pointers first, is divisible by 16.
    """
    launch = [*config.constants, config.warps, config.stages]
    what = [code_key(function), function.name, launch, capability, divisible, _triton_version(), _OPTIONS]
    key = "triton " + hashlib.sha256(json.dumps(what).encode()).hexdigest()
    code = kept(key, MachineCode)
    if code is None:
        code = compile_for(function, config, capability, divisible)
        keep(key, code)
    return code


def divisible_by(arguments: Iterable[int], divisor: int = DIVISIBLE) -> int:
    """The bit mask of the divisible arguments."""
    return sum(1 << i for i, value in enumerate(arguments) if value % divisor == 0)


def code_key(function: TritonFunction) -> str:
    """The cache key of a function: its source without the description, and the types of its arguments.

    The description has the location in a network. One source may be compiled for several types.
    """
    described = function.source.startswith(QUOTES)
    code = function.source.partition(f"{QUOTES}\n")[2] if described else function.source
    types = [*(dtype.name for dtype in function.pointers), *function.numbers]
    return hashlib.sha256("\n".join([*types, code]).encode()).hexdigest()


@functools.cache
def _triton_version() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


def compile_for(function: TritonFunction, config: Config, capability: tuple[int, int], divisible: int) -> MachineCode:
    """Compile a function with Triton, without the cache."""
    kernel = compiled(function, config, capability, divisible)
    metadata = kernel.metadata
    if metadata.global_scratch_size:
        raise UnsupportedError(
            f"{function.name} needs {metadata.global_scratch_size} bytes of global scratch memory, which hybridc does "
            "not allocate"
        )
    parameters = _parameters(kernel.asm["ptx"], metadata.name)
    return MachineCode(metadata.name, metadata.num_warps, metadata.shared, parameters, kernel.asm["cubin"])


def compiled(function: TritonFunction, config: Config, capability: tuple[int, int] | str, divisible: int) -> Any:
    """Triton's compiled object; ``.asm`` has all its stages.

    A capability that is a name, such as ``gfx942``, is an AMD GPU.
    """
    package = triton(interpreted=False)
    source: Any = importlib.import_module("triton.compiler").ASTSource
    target: Any = importlib.import_module("triton.backends.compiler").GPUTarget
    kernel = load_kernel(function, interpreted=False)
    types = [f"*{TYPES[dtype].signature}" for dtype in function.pointers] + list(function.numbers)
    signature = dict(zip(kernel.arg_names, [*types, *["constexpr"] * len(function.constants)], strict=True))
    attributes = {(i,): [["tt.divisibility", DIVISIBLE]] for i in range(len(types)) if divisible >> i & 1}
    specialised = source(fn=kernel, signature=signature, constexprs=dict(config.constants), attrs=attributes)
    options = {"num_warps": config.warps, "num_stages": config.stages, **_OPTIONS}
    if isinstance(capability, str):  # AMD: half as many warps of twice as many threads
        options["num_warps"] = max(1, config.warps // 2)
        return package.compile(specialised, target=target("hip", capability, 64), options=options)
    major, minor = capability
    return package.compile(specialised, target=target("cuda", major * 10 + minor, 32), options=options)


def _parameters(ptx: str, entry: str) -> int:
    """The number of parameters of a kernel: Triton adds some of its own."""
    parameters = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)", ptx, re.DOTALL)
    if parameters is None:
        raise UnsupportedError(f"Triton {_triton_version()} writes PTX in which the entry {entry} cannot be found")
    return parameters[1].count(".param")
