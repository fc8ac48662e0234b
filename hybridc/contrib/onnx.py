"""``mx.contrib.onnx``: what MXNet has here is not offered; every name says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent

# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []

if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.contrib.onnx", name, "attribute", ())
