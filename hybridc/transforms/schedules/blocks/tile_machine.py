"""The machine that tile programs of whole tiles are made for: a GPU, whose programs hold tiles in registers.

It is the same for all GPUs: how a reduction is cut decides the order in which its terms are added.
"""

from __future__ import annotations

from hybridc.ground.machine import GPU
from hybridc.ground.records import dataclass

# Offsets below this fit into 32 bits.
NARROW = 1 << 31


@dataclass(frozen=True)
class TileMachine:
    """A processor on which many programs run at a time, each on tiles that its warps hold in registers.

    The figures are an H100's; comments say what was measured there.
    """

    processors: int = GPU.multiprocessors
    vector: int = 16  # elements: arrays whose sizes are multiples of it are moved by whole vectors
    warp_elements: int = 8 * GPU.warp  # that one warp works on at a time: each thread on a vector of half precision
    warps: int = 16  # of a program, at most: not every GPU runs 32
    elements: int = 1024  # of each value that a program holds: of elementwise ops
    row_elements: int = 2048  # of rows, and of blocks that are reduced
    # Elements of a row that a program holds: they fill half of a processor's registers, of twice as many some spill.
    longest_row: int = GPU.registers // 2 // 4
    row_bytes: int = GPU.registers // 4 * 3  # bytes of all such rows at a time
    side: int = 32  # of a tile of which some values follow memory along one side, some along the other
    columns: int = 2 * GPU.line // 4  # that a block has if it is reduced across memory: two lines of the cache
    rows: int = 4  # that a block has if it is reduced along memory
    few_rows: int = 32  # so few, if they are longer than ``long_row``, do not keep a GPU busy with one program each
    long_row: int = 4096
    piece_blocks: int = 4  # of a piece, at least: fewer would take as long to begin and to combine
    pieces: int = 256  # of a reduction, at most: one block holds all of their results
    combined: int = 4096  # elements of such a block, at most

    @property
    def programs(self) -> int:
        """Programs that keep all processors busy: each runs a few, to wait for memory by turns."""
        return 4 * self.processors

    def warps_for(self, elements: int) -> int:
        """The warps that work on a tile of so many elements."""
        return min(self.warps, max(1, power_of_two(elements // self.warp_elements)))

    def warps_to_hold(self, elements: int) -> tuple[int, ...]:
        """The warp counts for a block of rows, the best first.

        Of more than 32 elements for each thread registers spill.
        """
        warps = self.warps_for(elements)
        return (warps,) if elements <= 32 * GPU.warp * warps else (2 * warps, warps)


def multiplied_side(n: int) -> int:
    """The least power of two that is not less, of a tile that tensor cores multiply."""
    return max(16, power_of_two(n))


def power_of_two(n: int) -> int:
    """The least power of two that is not less: what blocks are as large as."""
    return 1 << max(0, n - 1).bit_length()


MACHINE = TileMachine()
