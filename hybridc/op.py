"""``mx.op``: how an operator is written. Subclass the kind that fits, decorate it with ``register``.

``Elementwise`` (a scalar body), ``Reduction``, ``Composite`` (other operators), ``Movement``, ``Opaque`` (a host call)
and ``Stateful`` (a host call that owns an object); ``attribute`` declares attributes, ``Sample`` a tested call. The
operators of hybridc itself are written with nothing else. One that is a ``HasGPUKernel``, too, computes itself on GPUs
by a Triton kernel written by hand.

``get``, ``set_attr``, ``get_attr`` and ``list_attrs`` read and attach attributes of any operator under any key, as
NNVM's registry does.
"""

from __future__ import annotations

from hybridc.dialects.foreign.nnvm import get_attr, list_attrs, set_attr
from hybridc.dialects.foreign.nnvm_nodes import (
    Node,
    NodeAttrs,
    OpContext,
    get,
    kAddTo,
    kNullOp,
    kWriteInplace,
    kWriteTo,
)
from hybridc.dialects.interfaces import ArraySpec, GPUKernel, HasGPUKernel
from hybridc.dialects.operator import (
    Composite,
    Contraction,
    Elementwise,
    Movement,
    Opaque,
    Operator,
    Reduction,
    Sample,
    attribute,
    no_gradient,
    register,
)
from hybridc.dialects.stateful import Stateful

__all__ = [
    "Composite",
    "Contraction",
    "Elementwise",
    "Movement",
    "Opaque",
    "Operator",
    "Reduction",
    "Sample",
    "Stateful",
    "attribute",
    "no_gradient",
    "register",
    # kernels written by hand
    "ArraySpec",
    "GPUKernel",
    "HasGPUKernel",
    # attributes of any operator
    "get",
    "get_attr",
    "list_attrs",
    "set_attr",
    "Node",
    "NodeAttrs",
    "OpContext",
    "kAddTo",
    "kNullOp",
    "kWriteInplace",
    "kWriteTo",
]
