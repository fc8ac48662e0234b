"""What ``F`` is, typed, as in ``def hybrid_forward(self, F: mx.op.Functions, x: mx.nd.NDArray) -> mx.nd.NDArray``.

``f_functions.pyi`` has its functions, written from the operators.
"""

from __future__ import annotations


class Functions:
    """The functions of ``mx.nd`` and ``mx.sym``, one of which ``F`` is; a type for annotations only."""
