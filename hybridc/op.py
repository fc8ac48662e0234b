"""``mx.op``: how an operator is written. Subclass the kind that fits, decorate it with ``register``.

``Elementwise`` (a scalar body), ``Reduction``, ``Composite`` (other operators), ``Movement``, ``Opaque`` (a host call)
and ``Stateful`` (a host call that owns an object); ``attribute`` declares attributes, ``Sample`` a tested call. The
operators of hybridc itself are written with nothing else. The method ``kernel`` of any but a composite may return a
kernel written by hand for a target: a ``TritonKernel``, a ``LoopKernel``, a function with ``out=``.

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
from hybridc.dialects.handwritten import ArraySpec, LoopKernel, TritonKernel
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
from hybridc.operator.f_functions import Functions
from hybridc.operator.scalar_steps import Steps, Value

__all__ = [
    "Composite",
    "Contraction",
    "Elementwise",
    "Functions",
    "Movement",
    "Opaque",
    "Operator",
    "Reduction",
    "Sample",
    "Stateful",
    "Steps",
    "Value",
    "attribute",
    "no_gradient",
    "register",
    # kernels written by hand
    "ArraySpec",
    "LoopKernel",
    "TritonKernel",
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
