"""The callable of a hybridized block with sparse parameters or gradients: where these matter, operators run at once.

Graphs are dense. So such a block runs operator by operator, and each block inside it that has none is compiled.
"""

from __future__ import annotations

from typing import Any

from hybridc.gluon.hybridize.cached_graph import CachedGraph
from hybridc.ground.state import STATE


class SparseGraph(CachedGraph):
    """As a :class:`CachedGraph`, unless a parameter is sparse, or autograd records and a gradient of one is."""

    def __call__(self, *args: Any) -> Any:
        block = self._block()
        assert block is not None, "a block that is called exists"
        parameters = block.collect_params().values()
        sparse = [p for p in parameters if p.stype != "default"]
        if not sparse and STATE.recording:
            sparse = [p for p in parameters if p.grad_stype != "default" and p.grad_req != "null"]
        if not sparse:
            return super().__call__(*args)
        what = f"the {'gradient of ' * (sparse[0].stype == 'default')}parameter {sparse[0].name} is sparse"
        return self.at_once(args, what)
