"""Print the levels of HYBRIDC_CPU for ``make test-levels``: the least of each width of vectors below the host's.

At the host's own width the same choices are made as for the host itself. ``--all`` prints all whose code runs here.
"""

from __future__ import annotations

import sys

from hybridc.lower.llvm.codegen import processor
from hybridc.options import _cpus

LEVELS = [level for level in _cpus() if level != "host" and not processor.lacking(level)]
FIRST = {processor.vector_bits(level): level for level in reversed(LEVELS)}

if __name__ == "__main__":
    narrower = [level for bits, level in sorted(FIRST.items()) if bits < processor.vector_bits("host")]
    print(*(LEVELS if "--all" in sys.argv else narrower or LEVELS[:1]), sep="\n")
