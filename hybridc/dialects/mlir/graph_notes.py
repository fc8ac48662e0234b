"""The attributes of graphs, and of the functions, calls and ops that they become on the structured level and in plans.

Those of kernels and of their ops are in :mod:`hybridc.ir.kernels.kernel_notes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute

from hybridc.dialects.mlir.integer_array import integer_array, integers_of
from hybridc.dialects.mlir.note import Note
from hybridc.dtypes import DType


def _read_dtype(attribute: StringAttr) -> DType:
    return np.dtype(attribute.data)


def _write_dtype(dtype: DType) -> Attribute:
    return StringAttr(dtype.name)


def _read_dtypes(attribute: ArrayAttr[StringAttr]) -> list[DType]:
    return [_read_dtype(name) for name in attribute]


def _write_dtypes(dtypes: Sequence[DType]) -> Attribute:
    return ArrayAttr([_write_dtype(dtype) for dtype in dtypes])


def _read_attributes(attribute: DictionaryAttr) -> Mapping[str, Attribute]:
    return attribute.data


def _write_attributes(attributes: Mapping[str, Attribute]) -> Attribute:
    return DictionaryAttr(attributes)


# --- of the functions of a graph --------------------------------------------------------------------------------------

# What each argument is: "data", "parameter", "key", …; all are data where it is absent.
ROLES = Note.texts("hybrid.roles")
# The roles of arguments that are the same arrays at each call: of parameters, and of arrays of the function's closure.
LASTING = ("parameter", "capture")
# Whether it was traced in train mode; and whether it is of a composed symbol, whose mode is not known before it runs.
TRAINING, SYMBOL = Note.flag("hybrid.training"), Note.flag("hybrid.symbol")
# How many results are visible: new values of inputs, then saved values, follow these. All where it is absent.
OUTPUTS: Note[int | None] = Note(
    "hybrid.outputs", lambda count: integers_of(count)[0], lambda count: integer_array([count]), None
)
# The inputs whose new values follow the visible results. Of a kernel of the numpy target: the results that get, in some
# call, memory of a donated argument together with what it holds.
UPDATES = Note.integers("hybrid.updates")
# Pairs of an argument, whose memory the caller donates, and the result that is written there.
DONATED = Note.pairs("hybrid.donated")
# Of a forward: the inputs to differentiate.
GRADS = Note.integers("hybrid.grads")
# The results from which gradients start; None if all.
HEADS = Note.integers("hybrid.heads").or_none()
# Of a backward: the values of the forward that its first arguments are, indices into its inputs and then its results.
SAVED = Note.integers("hybrid.saved")
# Of a backward: the inputs whose gradient is two results, rows and their numbers.
ROWS = Note.integers("hybrid.rows")
# Of a backward: its results may be written into buffers of the caller's.
INTO = Note.flag("hybrid.into")
# Of a planned function: the bytes of its largest live set.
LIVE = Note.integer("hybrid.live")

# --- of declared functions, operators and ops -------------------------------------------------------------------------

# Of operators in a graph: a handwritten kernel computes it. Of a declared function: such a kernel does, not the host.
BY_HAND, HAS_KERNEL = Note.flag("hybrid.by_hand"), Note.flag("hybrid.kernel")
# Of ops: the operator that they come from, without its dialect. Of a declared function: the operator that computes it.
OPERATOR = Note.text("hybrid.operator").or_none()
# Of a declared function: the attributes of its operator.
OPERATOR_ATTRIBUTES: Note[Mapping[str, Attribute]] = Note("hybrid.attributes", _read_attributes, _write_attributes, {})
# What types do not say, since upstream integers are signless: of an op, the dtype of its result; of a function, the
# dtypes of its arguments and then its results. None where the types say all.
DTYPE: Note[DType | None] = Note("hybrid.dtype", _read_dtype, _write_dtype, None)
DTYPES: Note[list[DType] | None] = Note("hybrid.dtypes", _read_dtypes, _write_dtypes, None)
# Of calls and launches: they depend on parameters alone, and run when one of these changed.
PREPARATION = Note.flag("hybrid.preparation")
