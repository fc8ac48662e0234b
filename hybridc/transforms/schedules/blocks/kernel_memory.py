"""The memory that a kernel's launches share: its arguments, its results, and local buffers for values between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import Kernel, KernelOp, KernelValue
from hybridc.ir.tiles.block_code import BlockCode, BlockLaunch, LibraryCode

Strides = tuple[int, ...]


class KernelMemory:
    """The buffers of a kernel: the names of its arguments, its results and its locals, and which values are there."""

    def __init__(self, kernel: Kernel, strides: Mapping[int, Strides]) -> None:
        self.kernel = kernel
        values = [*kernel.arguments, *kernel.results]
        buffers = [*(f"x{i}" for i in range(len(kernel.arguments))), *(f"y{i}" for i in range(len(kernel.results)))]
        self.strides = {values[i]: s for i, s in strides.items()}
        self.dtypes = {name: v.dtype for name, v in zip(buffers, values, strict=True)}
        self.names: dict[KernelValue, str] = {}
        for name, v in zip(buffers, values, strict=True):
            self.names.setdefault(v, name)
        self.locals: list[int] = []

    def materialize(self, value: KernelValue) -> None:
        """Give a value memory, if it has none."""
        if value not in self.names:
            self.names[value] = self.local(value.size, value)

    def local(self, elements: int, like: KernelValue) -> str:
        """A buffer of the kernel's own."""
        name = f"w{len(self.locals)}"
        self.locals.append(elements * like.dtype.itemsize)
        self.dtypes[name] = like.dtype
        return name

    def code(self, launches: Sequence[BlockLaunch], library: LibraryCode | None = None) -> BlockCode:
        """The code of the kernel: launches on these buffers."""
        return BlockCode(self.kernel, launches, tuple(self.dtypes), self.locals, library)


@dataclass(frozen=True, eq=False)
class PartialResults:
    """A reduction whose elements are shared: the buffer of its partial results, and how many there are.

    If there is one, the buffer is that of the result.
    """

    kernel_op: KernelOp
    buffer: str
    pieces: int
