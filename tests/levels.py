"""Print the levels of HYBRIDC_CPU whose code this computer can run, from the least on: ``make test-levels``."""

from __future__ import annotations

from hybridc.lower.llvm.codegen import processor
from hybridc.options import _cpus

print(*[level for level in _cpus() if level != "host" and not processor.lacking(level)], sep="\n")
