"""Triton kernels as text, and the arguments of their launches."""

from __future__ import annotations

import hashlib
from dataclasses import field

from hybridc.dialects.operator_attribute import DType
from hybridc.dtypes import TYPES
from hybridc.errors import UnsupportedError
from hybridc.ground.cached import cached_property
from hybridc.ground.records import dataclass
from hybridc.ir.library_matmul import LibraryMatmul

# Around what a source says of itself.
QUOTES = '"""'
# Programs along each of the three axes of a grid, at most: only the first has room for what arrays may have many of.
PROGRAMS = (2**31 - 1, 65535, 65535)


def triton_type(dtype: DType) -> str:
    """A dtype as Triton names it.

    Raises:
        UnsupportedError: Triton lacks it, or does not convert to it as NumPy does.
    """
    name = TYPES[dtype].triton
    if not name:
        raise UnsupportedError(f"arrays of {dtype} cannot be used on GPUs: cast them before, as .astype('float16')")
    return f"tl.{name}"


@dataclass(frozen=True)
class Config:
    """A launch config of a function: the values of its constant parameters, and how many programs run.

    ``grid`` counts the programs along each of the three axes. ``warps`` run one program, ``stages`` of loops overlap.
    ``shared`` are the bytes of a program's shared memory that this is expected to take at most, if that is much.
    """

    constants: tuple[tuple[str, int], ...]
    grid: tuple[int, int, int]
    warps: int = 4
    stages: int = 2
    shared: int = field(default=0, compare=False)

    def __str__(self) -> str:
        constants = ", ".join(f"{name}={value}" for name, value in self.constants)
        return f"{'x'.join(map(str, self.grid))} programs, {constants}, {self.warps} warps, {self.stages} stages"


@dataclass(frozen=True)
class TritonFunction:
    """The source of a module with one kernel ``name``.

    Its parameters: a pointer for each of ``pointers``, the dtype of what it points at; ``numbers``, integers; then the
    constants that a :class:`Config` gives.
    """

    name: str
    source: str
    pointers: tuple[DType, ...]
    numbers: tuple[str, ...] = ()  # "i32" or "i64" of each
    constants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for dtype in self.pointers:
            triton_type(dtype)

    @cached_property
    def key(self) -> str:
        """Names its source."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def described(self) -> str:
        """A description: what it is and where it comes from, the first line of its source."""
        if not self.source.startswith(QUOTES):
            return self.name
        return f"{self.name}: {self.source.split(QUOTES)[1].rstrip('.')}"


@dataclass(frozen=True)
class TritonLaunch:
    """A function with its arguments: ``buffers`` number the arguments of its kernel, then results, then locals.

    Of ``configs``, at most four, the first is expected to be the fastest.
    """

    function: TritonFunction
    buffers: tuple[int, ...]
    numbers: tuple[int, ...]
    configs: tuple[Config, ...]

    def __post_init__(self) -> None:
        for grid in (config.grid for config in self.configs):
            if any(n > most for n, most in zip(grid, PROGRAMS, strict=True)):
                raise UnsupportedError(
                    f"{self.function.described} needs {'x'.join(map(str, grid))} programs; "
                    f"a GPU runs at most {'x'.join(map(str, PROGRAMS))}"
                )


@dataclass(frozen=True)
class LibraryConfig:
    """A matmul by a library, and the launches ``after`` it."""

    contraction: LibraryMatmul
    after: tuple[TritonLaunch, ...] = ()


@dataclass
class TritonLaunches:
    """All launches of a kernel, one after the other, and the bytes of each of its local buffers.

    ``library`` is a library's matmul that could replace all of them.
    """

    kernel_launches: list[TritonLaunch] = field(default_factory=lambda: list[TritonLaunch]())
    locals: list[int] = field(default_factory=lambda: list[int]())
    library: LibraryConfig | None = None

    def scratch_of(self, threads: int) -> int:
        """No bytes: what programs need besides lies in registers."""
        return 0
