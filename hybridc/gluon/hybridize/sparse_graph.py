"""The callable of a hybridized block with sparse parameters: operators run at once.

Graphs take dense arrays. So such a block runs operator by operator, and each block inside it that has none is compiled.
"""

from __future__ import annotations

from typing import Any

from hybridc.gluon.hybridize.cached_graph import CachedGraph


class SparseGraph(CachedGraph):
    """As a :class:`CachedGraph` whose arguments are sparse: a parameter is."""

    def __call__(self, *args: Any) -> Any:
        block = self._block()
        assert block is not None, "a block that is called exists"
        sparse = next(p.name for p in block.collect_params().values() if p.stype != "default")
        return self.at_once(args, f"the parameter {sparse} is sparse")
