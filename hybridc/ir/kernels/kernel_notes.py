"""The attributes of kernels and of their ops as typed values.

A kernel prints as a function that other MLIR tools accept, so what is known of it is in attributes. Those of graphs
are in :mod:`hybridc.dialects.mlir.graph_notes`.
"""

from __future__ import annotations

from hybridc.dialects.mlir.note import Note

# Of kernels, for each of their loop nests: the sizes of the iteration space; the axes that are known to vary from call
# to call; those that are the grid of all; and of attention those that are rows, and those that are keys.
DOMAINS, VARYING = Note.lists("hybrid.domains"), Note.lists("hybrid.varying")
GRID, ATTENTION = Note.lists("hybrid.grid"), Note.lists("hybrid.attention")
# Of ops in kernels: the axis of each loop, -1 for the reduction loops of contractions; and the index of the loop nest.
AXES, LOOP_NEST = Note.integers("hybrid.axes"), Note.integer("hybrid.loop_nest")
# Of matmuls of prepacked panels.
PANELS = Note.flag("hybrid.panels")
# What the memory plan needs to know of a kernel's code: bytes of scratch; pairs of an argument and the result that may
# overwrite it; and the indices of arguments, then results, that are not contiguous in some call.
SCRATCH, INPLACE = Note.integer("hybrid.scratch"), Note.pairs("hybrid.inplace")
STRIDED = Note.integers("hybrid.strided")
# Of kernels of the numpy target: how many threads share one.
THREADS = Note.integer("hybrid.threads", absent=1)
