"""Checks of users' NumPy methods: inputs are read-only, results match the operator's inference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.dialects.error_context import defined, pair
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import CustomOpError
from hybridc.ground.nesting import as_list
from hybridc.sparse_storage import SparseStorage

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator

_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"
_METHODS = ("eager", "eager_out", "forward", "backward")

_KEPT = 64  # entries of an operator's cache of inferred results
# The shape and dtype of a result; None for a dtype that its caller converts.
Wanted = tuple[Shape, DType | None]


def on_arrays(cls: type[Any]) -> bool:
    """Whether a class has a user's method on NumPy arrays."""
    if cls.__module__.startswith("hybridc."):
        return False
    codes: list[Any] = [getattr(getattr(cls, name, None), "__code__", None) for name in _METHODS]
    files: list[str] = [code.co_filename for code in codes if code is not None]
    # An attached function is called through one of ours, which an operator of ours does not need.
    return any(not f.startswith(_PACKAGE) or f.endswith("/nnvm_interfaces.py") for f in files)


def readonly(array: Any) -> Any:
    """A read-only view of a NumPy array; other arrays as they are."""
    if array.__class__ is not np.ndarray:
        return array
    view = array.view()
    view.setflags(write=False)
    return view


def evaluated(op: Operator, arrays: Sequence[Any]) -> Any:
    """The results of a user's ``eager``: one array, or a tuple, which share no memory with the inputs."""
    wanted = _expected(op, arrays)
    found = op.evaluate(*map(readonly, arrays))
    if found.__class__ is np.ndarray and len(wanted) == 1:
        ((shape, dtype),) = wanted
        if found.shape == shape and (dtype is None or found.dtype == dtype):
            return found if found.flags.writeable else found.copy()
    results = matching(op, "eager", found, wanted)
    dense = [r if isinstance(r, SparseStorage) else np.asarray(r) for r in results]
    own = [r if isinstance(r, SparseStorage) or r.flags.writeable else r.copy() for r in dense]
    return own[0] if op.results == 1 else tuple(own)


def _expected(op: Operator, arrays: Sequence[Any]) -> list[Wanted]:
    """The inferred shapes and dtypes of an operator's results for such arrays; cached."""
    kept: dict[Any, list[Wanted]] = vars(op).setdefault("_expected", {})
    key = tuple([(a.shape, a.dtype) for a in arrays])
    if key in kept:
        return kept[key]
    shapes = pair(op, "infer_shape", op.infer_shape([a.shape for a in arrays]), len(arrays))[1]
    dtypes = pair(op, "infer_type", op.infer_type([a.dtype for a in arrays]), len(arrays))[1]
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = [(tuple(s), None if op.CONVERTS else np.dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]
    return kept[key]


def matching(op: Operator, method: str, given: Any, wanted: Sequence[Wanted]) -> list[Any]:
    """The arrays that a user's method returned, or an error unless number, shapes and dtypes are as wanted."""
    arrays = as_list(given) if isinstance(given, tuple) or method != "eager" else [given]
    if len(arrays) != len(wanted) or (isinstance(given, tuple) and len(wanted) == 1 and method == "eager"):
        raise wrong_results(op, method, given)
    for i, (array, (shape, dtype)) in enumerate(zip(arrays, wanted, strict=True)):
        which = f" as result {i}" if len(wanted) > 1 else ""
        if not _is_array(array):
            raise wrong_results(op, method, array, which)
        if array.shape != shape:
            raise CustomOpError(
                f"{_name(op)}: {method} returned an array of shape {array.shape}{which}, expected {shape}; return "
                f"that, or correct {_rule(op, 'shape')}{defined(op, method)}"
            )
        if dtype is not None and array.dtype != dtype:
            raise CustomOpError(
                f"{_name(op)}: {method} returned an array of {array.dtype}{which}, expected {dtype}; use "
                f".astype('{dtype}'), or correct {_rule(op, 'type')}{defined(op, method)}"
            )
    return arrays


def gradients(op: Operator, given: Any, wanted: Sequence[Wanted | None]) -> list[Any]:
    """The gradients that ``backward`` returned, for the inputs that need one (not None), in order."""
    arrays = as_list(given)
    if given is None or len(arrays) != len(wanted):
        got = "None" if given is None else f"{len(arrays)} gradients"
        raise CustomOpError(
            f"{_name(op)}: backward returned {got} for {len(wanted)} input{'s' * (len(wanted) != 1)}; return a list "
            f"with one for each, None where there is none{defined(op, 'backward')}"
        )
    for i, (array, each) in enumerate(zip(arrays, wanted, strict=True)):
        if each is None:
            continue
        if not _is_array(array):
            raise CustomOpError(
                f"{_name(op)}: backward returned {_described(array)} for input {i}, which needs a gradient; return an "
                f"array of shape {each[0]}{defined(op, 'backward')}"
            )
        if (array.shape, array.dtype) != each:
            raise CustomOpError(
                f"{_name(op)}: backward returned a gradient of {array.dtype} and shape {array.shape} for input {i}, "
                f"expected {each[1]} and {each[0]}, as the input{defined(op, 'backward')}"
            )
    return [a for a, each in zip(arrays, wanted, strict=True) if each is not None]


def wrong_results(op: Operator, method: str, given: Any, which: str = "") -> CustomOpError:
    """The error for a method that returned something other than its arrays."""
    eager = method == "eager"
    count = op.results if eager else op.num_visible_outputs() + len(op.mutated)
    wanted = "an array" if count == 1 else f"a tuple of {count} arrays"
    said = "num_outputs() says, with hidden results and" if eager else "num_visible_outputs() says, with"
    hint = "; is a return missing?" if given is None else ""
    return CustomOpError(
        f"{_name(op)}: {method} returned {_described(given)}{which}; return {wanted}, as {said} the new values of "
        f"updated inputs{hint}{defined(op, method)}"
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | SparseStorage)


def _described(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return f"a tuple of {len(as_list(value))}"
    if isinstance(value, np.ndarray):
        return "an array"
    return f"a {type(value).__name__}"


def _name(op: Operator) -> str:
    described = getattr(op, "described", None)
    return f"operator {op.NAME}" if described is None else described()


def _rule(op: Operator, what: str) -> str:
    """The method that infers the results."""
    return f"result_{what}s" if hasattr(op, "result_shapes") else f"infer_{what}"


def lasting(array: Any) -> Any:
    """An array that the user may keep: a copy of a view, as a compiled graph reuses its memory."""
    return array if getattr(array, "base", None) is None else array.copy()
