"""Binary arithmetic with broadcasting."""

from __future__ import annotations

from typing import Any

from hybridc.dialects.operator import Elementwise, Sample, register


class Binary(Elementwise):
    """A scalar function of two broadcasting inputs."""

    INPUTS = ("lhs", "rhs")


@register("hybrid.add", "broadcast_add", "broadcast_plus", "elemwise_add")
class Add(Binary):
    """lhs + rhs"""

    def scalar(self, b: Any, *xs: Any) -> Any:
        return b.add(*xs)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy = values[0]
        return dy, dy

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 5), (3, 5)], lambda x, y: x + y), Sample([(3, 1, 5), (4, 1)], lambda x, y: x + y)]
