"""Equal launches of a kernel, each on small arrays of its own, as one launch: the update of many weights, say.

To begin a launch takes as long as to process a small array.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from hybridc.ir.tiles.block_code import BlockLaunch, JoinedLaunches
from hybridc.ir.tiles.tile_program import TileLaunch

# An array of more elements has a launch of its own: finding out whose elements it has would cost each program more.
LARGEST = 1 << 18
# The most pointers and scalars that one launch is given; a GPU takes 4096 bytes of them.
PARAMETERS = 256


def fuse_horizontally(launches: Sequence[TileLaunch], read_only: Set[str]) -> list[BlockLaunch]:
    """The launches of a kernel, equal ones as one launch where none needs what another makes.

    Nothing is ever written into the buffers ``read_only``.
    """
    groups: list[list[TileLaunch]] = []
    for launch in launches:
        joined = None
        for group in reversed(groups):
            if any({*other.buffers} & {*launch.buffers} - read_only for other in group):
                break
            if _joins(launch, group):
                joined = group
                break
        if joined is None:
            groups.append([launch])
        else:
            joined.append(launch)
    return [group[0] if len(group) == 1 else JoinedLaunches(tuple(group)) for group in groups]


def _joins(launch: TileLaunch, group: Sequence[TileLaunch]) -> bool:
    """Whether a launch that does not wait for a group may be made one with it."""
    first = group[0]
    if not launch.flat or not launch.has_code_of(first):
        return False
    if max(x.extent(x.program.tiles[0].axes) for x in (launch, first)) > LARGEST:
        return False
    return (len(group) + 1) * (len(launch.buffers) + len(launch.program.dynamic)) <= PARAMETERS
