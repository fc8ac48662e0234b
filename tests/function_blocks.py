"""Functions of ``F`` and arrays as blocks."""

from __future__ import annotations

from hybridc.gluon import HybridBlock


class Lambda(HybridBlock):
    """A function as a block."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


def hybrid(function):
    """A function as a hybridized block."""
    net = Lambda(function, prefix="net_")
    net.hybridize()
    return net
