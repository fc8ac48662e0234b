"""A counter for the whole process: when it has changed, compiled graphs check their guards."""

from __future__ import annotations


class ChangeCounter:
    """Counts changes of plain attributes of blocks and of parameters' dtype, ``Parameter.grad_req`` and arrays."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


ATTRIBUTE_EPOCH = ChangeCounter()
