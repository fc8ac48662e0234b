"""Errors for MXNet names that are missing here: what they are in MXNet, what to use instead, or similar names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from hybridc.errors import AbsentError

# What hybridc lacks of MXNet: a pattern of names, what they are, and the way out.
_FAMILIES = [
    (r"numpy_op_fallback", "operators of mx.np that call NumPy", "; mx.np has functions of their names"),
    (r"th|torch", "functions of Torch for Lua", "; mx.nd.from_dlpack takes tensors of PyTorch"),
    (r"tvmop|api", "MXNet's second interface to C", "; its functions are those of mx.nd"),
    (r"notebook", "charts of training in notebooks", "; mx.callback has what is called after each batch and epoch"),
    (r"quantized_rnn", "this quantized operator", "; RNN on real numbers is here"),
    (r"imdecode|imresize", "this operator", "; mx.image has functions of this name"),
]  # fmt: skip


# Operators of MXNet that hybridc lacks: by kind, the beginnings of their names, and what they are.
_INTERNAL = ("_CachedOp", "_CustomFunction", "_NDArray", "_Native", "_NoGradient", "_broadcast_backward")
_HANDLES = ("_imperative_invoke", "_set_ndarray_class", "_set_np_ndarray_class")
_OF_BACKWARD = ("_split_v2_backward", "_backward_", "_contrib_backward_")
_LACKING = {
    "mkldnn": (("_sg_mkldnn_", "_contrib_quantized_rnn"), "was made for MKL-DNN"),
    "arrays": (("_cv", "_npi_cv", "_imdecode", "_onehot_encode", "_set_value"), "is a function of arrays"),
    "running": ((*_INTERNAL, *_HANDLES, *_OF_BACKWARD), "exists in a running MXNet only"),
}  # fmt: skip


def why_lacking(operator: str) -> tuple[str, str] | None:
    """The kind of an operator of MXNet that hybridc lacks, and what it is; None for other names."""
    kinds = ((kind, what) for kind, (names, what) in _LACKING.items() if operator.startswith(names))
    return next(kinds, None)


def absent(
    owner: str, name: str, kind: str, known: Iterable[str], family: tuple[str, str] | None = None
) -> AttributeError:
    """``owner has no <kind> 'name'``, with what it is in MXNet, or similar names out of ``known``.

    ``family`` is what all names of the owner are, and the way out. Where the name is imported, the text is that of
    an AbsentImportError, see :mod:`hybridc.aliases`.
    """
    text = f"{owner} has no {kind} {name!r}"
    if name.startswith("__"):
        return AttributeError(text)
    return AbsentError(text if name.startswith("_") else text + _explanation(name, known, family))


def _explanation(name: str, known: Iterable[str], family: tuple[str, str] | None) -> str:
    """What the name is in MXNet, or similar names."""
    found = next(((what, way) for pattern, what, way in _FAMILIES if re.fullmatch(pattern, name)), family)
    if found is not None:
        what, way = found
        return f": this version of hybridc does not have {what}{way}"
    near = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""
