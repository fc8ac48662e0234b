"""``mx.sym.sparse``: can be imported, and has none of MXNet's functions: all arrays are dense, and so are symbols."""

from __future__ import annotations

from typing import Any

from hybridc.ground.absent import absent as _absent
from hybridc.nd.sparse import way_out as _way_out

# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []


def __getattr__(name: str) -> Any:
    raise _absent("mx.sym.sparse", name, "attribute", (), _way_out("mx.sym", name))
