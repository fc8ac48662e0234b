"""What is special about single functions of ``mx.np`` in symbol files: their arguments there are others than here."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportIncompatibleMethodOverride=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any, NamedTuple

from hybridc.symbol.np_calls.np_call_names import BY_FUNCTION, BY_TITLE, NumpyName

Arguments = dict[str, Any]


class InputPlace(NamedTuple):
    """Where an input stands among the arguments of a call."""

    index: int


class KeySlice(NamedTuple):
    """A slice among the arguments, which has no hash."""

    start: Any
    stop: Any
    step: Any


# --- arguments from attributes -----------------------------------------------------------------------------------


def _cuts(found: Arguments) -> None:
    cuts, sections = found.pop("indices", ()), found.pop("sections", 0)
    found.pop("squeeze_axis", None)
    cuts = (cuts,) if isinstance(cuts, int) else tuple(cuts)
    found["indices_or_sections"] = sections or cuts[1:]  # the first is where the first part begins


def _cuts_alone(found: Arguments) -> None:
    _cuts(found)
    found.pop("axis", None)


def _summed_axes(found: Arguments) -> None:
    if "a_axes_summed" in found:
        found["axes"] = (found.pop("a_axes_summed"), found.pop("b_axes_summed"))


def _object(found: Arguments) -> None:
    part = KeySlice(*(found.pop(key, None) for key in ("start", "stop", "step")))
    found.setdefault("obj", part)


def _border(found: Arguments) -> None:
    mode = found.get("mode", "constant")
    if mode != "constant":
        found.pop("constant_values", None)
    if mode not in ("reflect", "symmetric"):
        found.pop("reflect_type", None)


def _size(found: Arguments) -> None:
    found["n"] = found["n"][0]


def _norm(found: Arguments) -> None:
    flag, axis = found.pop("flag", -1), found.get("axis")
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    names = {-2: None, 2: "nuc", 1: 2 if isinstance(axis, int) else "fro"}
    found["axis"] = axis
    found["ord"] = names[flag] if flag in names else float(found.get("ord", 2))


_READ: dict[str, Callable[[Arguments], None]] = {
    "split": _cuts,
    "hsplit": _cuts_alone,
    "dsplit": _cuts_alone,
    "tensordot": _summed_axes,
    "insert": _object,
    "delete": _object,
    "pad": _border,
    "identity": _size,
    "linalg.norm": _norm,
}


def to_arguments(row: NumpyName, values: Arguments, count: int, never_none: Container[str]) -> Arguments | None:
    """The keywords of the call of a row, from its attributes and so many inputs; None if the inputs are too many.

    ``never_none`` are the parameters whose None is no default.
    """
    found = {row.attrs[key]: value for key, value in values.items() if key in row.attrs and value is not None}
    if row.arrays:
        said = {param: values.get(flag) for flag, param in row.flags.items()}
        free = [param for param in row.arrays if param not in found and said.get(param) is not False]
        if len(free) > count and any(said.values()):
            free = [param for param in free if said.get(param)]
        if len(free) < count:
            return None
        found.update((param, InputPlace(i)) for i, param in enumerate(free[:count]))
    if row.function in _READ:
        _READ[row.function](found)
    kept = {p: None for key, p in row.attrs.items() if p in never_none and key in values and p not in row.arrays}
    return {**kept, **{key: value for key, value in found.items() if value is not None}}


# --- attributes from arguments -----------------------------------------------------------------------------------


def _from_cuts(bound: Arguments) -> None:
    cuts = bound.pop("indices_or_sections")
    bound["indices"] = () if isinstance(cuts, int) else (0, *cuts)
    bound["sections"] = cuts if isinstance(cuts, int) else 0
    bound.setdefault("axis", 0)
    bound["squeeze_axis"] = False


def _from_columns(bound: Arguments) -> None:
    _from_cuts(bound)
    bound["axis"] = 1


def _from_layers(bound: Arguments) -> None:
    _from_cuts(bound)
    bound["axis"] = 2


def _from_axes(bound: Arguments) -> None:
    if not isinstance(bound.get("axes", 2), int):
        bound["a_axes_summed"], bound["b_axes_summed"] = (
            (axes,) if isinstance(axes, int) else axes for axes in bound.pop("axes")
        )


def _from_object(bound: Arguments) -> None:
    if isinstance(bound["obj"], KeySlice):
        part = bound.pop("obj")
        bound.update(start=part.start, stop=part.stop, step=part.step or 1)


def _from_border(bound: Arguments) -> None:
    bound.update(bound.pop("kwargs", {}))


def _from_size(bound: Arguments) -> None:
    bound["n"] = (bound["n"], bound["n"])


def _from_norm(bound: Arguments) -> None:
    order, axis = bound.get("ord"), bound.get("axis")
    flags = {None: -2 if axis is None else 1, "nuc": 2, "fro": 1, "f": 1}
    matrix = isinstance(axis, tuple) and len(axis) == 2  # of two axes
    bound["flag"] = flags.get(order, 0 if matrix and order in (2, -2) else -1)
    bound["ord"] = 2 if order in flags else order
    bound["axis"] = (axis,) if isinstance(axis, int) else axis


def _from_bins(bound: Arguments) -> None:
    bound.setdefault("bins", 10)


def _from_range(bound: Arguments) -> None:
    if bound.get("high") is None:
        bound["low"], bound["high"] = 0, bound["low"]
    bound["dtype"] = bound.get("dtype") or "int64"


def _from_quarters(bound: Arguments) -> None:
    bound.setdefault("axes", (0, 1))


def _from_argsort(bound: Arguments) -> None:
    bound["dtype"] = "int64"


_WRITTEN: dict[str, Callable[[Arguments], None]] = {
    "argsort": _from_argsort,
    "split": _from_cuts,
    "hsplit": _from_columns,
    "dsplit": _from_layers,
    "histogram": _from_bins,
    "random.randint": _from_range,
    "rot90": _from_quarters,
    "tensordot": _from_axes,
    "insert": _from_object,
    "delete": _from_object,
    "pad": _from_border,
    "identity": _from_size,
    "linalg.norm": _from_norm,
}


def row_of_call(function: str, bound: Arguments) -> NumpyName | None:
    """The row that a call with these arguments is written as."""
    if function == "where":
        numbers = [not isinstance(bound.get(key), InputPlace) for key in ("x", "y")]
        suffix = ("", "_rscalar", "_lscalar", "_scalar2")[2 * numbers[0] + numbers[1]]
        return BY_TITLE[f"_npi_where{suffix}"]
    if function == "insert":
        kind = {KeySlice: "slice", InputPlace: "tensor"}.get(type(bound["obj"]), "scalar")
        return BY_TITLE[f"_npi_insert_{kind}"]
    if function == "tensordot":
        return BY_TITLE["_npi_tensordot_int_axes" if isinstance(bound.get("axes", 2), int) else "_npi_tensordot"]
    if function == "linalg.pinv" and not isinstance(bound.get("rcond"), InputPlace):
        return BY_TITLE["_npi_pinv_scalar_rcond"]
    return BY_FUNCTION.get(function)


def to_attributes(row: NumpyName, function: str, bound: Arguments, never_none: Container[str]) -> Arguments:
    """The attributes of a call under MXNet's names."""
    bound = dict(bound)
    if function in _WRITTEN:
        _WRITTEN[function](bound)
    found: Arguments = {}
    written: set[str] = set()
    for key, param in row.attrs.items():
        value = bound.get(param)
        if param in written:  # under a name that old files have, too
            continue
        if param in row.arrays and "random." in function and not key.startswith("input"):
            found[key] = None if isinstance(value, InputPlace) else value  # has no default there
        elif isinstance(value, InputPlace):
            continue
        elif value is not None or (param in never_none and param in bound):
            found[key] = value
        written.add(param)
    for flag, param in row.flags.items():
        value = bound.get(param)
        found[flag] = isinstance(value, InputPlace) if flag.endswith("_arr_given") else value is not None
    return found


# --- functions that MXNet composes of others ---------------------------------------------------------------------


def _flat(F: Any, x: Any) -> Any:
    return F.reshape(x, (-1,))


def _norm_by_sums(F: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    order = float(ord) if ord in ("inf", "-inf") else ord
    if order not in (1, -1, math.inf, -math.inf):
        return None
    best = F.max if order > 0 else F.min
    if isinstance(axis, int) and math.isinf(order):
        return best(F.absolute(x), axis=axis, keepdims=keepdims)
    if not (isinstance(axis, tuple) and len(axis) == 2 and min(axis) * max(axis) >= 0):
        return None
    summed, other = axis if abs(order) == 1 else axis[::-1]
    if not keepdims:  # as the axes are counted after the sum
        other += (summed > other) if other < 0 else -(summed < other)
    return best(F.sum(F.absolute(x), axis=summed, keepdims=keepdims), axis=other, keepdims=keepdims)


def _diagonal(F: Any, arr: Any) -> Any:
    places = F.diag_places(arr)
    return [places[0], places[1]]


def _quantile(F: Any, a: Any, q: Any, **keywords: Any) -> Any:
    return F.percentile(a, q * 100 if isinstance(q, int | float) else F.multiply(q, 100), **keywords)


def _beta(F: Any, a: Any, b: Any, size: Any = None, dtype: Any = None) -> Any:
    left, right = (F.random.gamma(p, 1.0, size, dtype=dtype or "float32") for p in (a, b))
    return F.true_divide(left, F.add(left, right))


#: By the function: the same with other functions of ``F``, ``mx.sym.np``; or None if this call is not of that kind.
COMPOSED: dict[str, Callable[..., Any]] = {
    "append": lambda F, arr, values, axis=None: F.concatenate([arr, values], axis=axis),
    "deg2rad": lambda F, x: F.radians(x),
    "diag_indices_from": _diagonal,
    "divide": lambda F, x1, x2: F.true_divide(x1, x2),
    "fliplr": lambda F, m: F.flip(m, 1),
    "flipud": lambda F, m: F.flip(m, 0),
    "inner": lambda F, a, b: F.tensordot(a, b, axes=((-1,), (-1,))),
    "linalg.norm": _norm_by_sums,
    "ones_like": lambda F, a, dtype=None: F.full_like(a, 1, dtype=dtype),
    "outer": lambda F, a, b: F.tensordot(_flat(F, a), _flat(F, b), axes=0),
    "quantile": _quantile,
    "rad2deg": lambda F, x: F.degrees(x),
    "random.beta": _beta,
    "random.lognormal": lambda F, *args, **keywords: F.exp(F.random.normal(*args, **keywords)),
    "random.rand": lambda F, *size: F.random.uniform(size=size),
    "ravel": _flat,
    "remainder": lambda F, x1, x2: F.mod(x1, x2),
    "vdot": lambda F, a, b: F.tensordot(_flat(F, a), _flat(F, b), axes=1),
    "vsplit": lambda F, ary, indices_or_sections: F.split(ary, indices_or_sections, axis=0),
    "zeros_like": lambda F, a, dtype=None: F.full_like(a, 0, dtype=dtype),
}
