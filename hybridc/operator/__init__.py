"""``mx.operator``: operators of your own, written in Python as a forward and a backward on arrays.

Subclass :class:`CustomOp` (what it computes) and :class:`CustomOpProp` (what it takes and gives), register
the latter under a name, and call ``mx.nd.Custom(x, …, op_type=name)``.
"""

from __future__ import annotations

from hybridc.ground.hooks import HOOKS
from hybridc.operator.custom import _PROPS as _PROPS
from hybridc.operator.custom import Custom
from hybridc.operator.custom_op import CustomOp, CustomOpProp, register
from hybridc.operator.listing import OperatorArguments, get_all_registered_operators, get_operator_arguments
from hybridc.operator.python_op import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "Custom",
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "load_op_lib",
    "register",
]


def load_op_lib(path: str) -> None:
    """Load the library of compiled operators at ``path``: an older name of ``mx.library.load``."""
    HOOKS.library().load(path)
