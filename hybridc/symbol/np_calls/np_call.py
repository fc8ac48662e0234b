"""A call of a function of ``mx.np`` as a node of a composed graph, where no shape is known yet.

When the graph is evaluated the function is called: with arrays it runs, and a trace records the operators that it is
made of. So no trace and no IR has this operator.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false, reportIncompatibleMethodOverride=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.array.numpy_array import as_numpy
from hybridc.dialects.numpy_rules import common
from hybridc.dialects.operator import Composite, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import DTypeError, MXNetError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list
from hybridc.ground.state import STATE
from hybridc.symbol.np_calls.np_call_files import (
    COMPOSED,
    InputPlace,
    KeySlice,
    row_of_call,
    to_arguments,
    to_attributes,
)
from hybridc.symbol.np_calls.np_call_names import BY_TITLE, OF_INTEGERS, PAIRS, REFLECTED, WITHOUT_AXES, NumpyName


def function_of(name: str) -> Callable[..., Any]:
    """The function of ``mx.np`` or ``mx.npx``, as ``random.uniform``; ``getitem`` and such are of arrays."""
    if name == "getitem":
        return HOOKS.getitem
    if name in OF_ARRAYS:
        return OF_ARRAYS[name]
    owner = HOOKS.npx() if name.startswith("npx.") else HOOKS.np()
    for part in name.removeprefix("npx.").split("."):
        owner = getattr(owner, part)
    return owner


def _astype(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


def _masked(data: Any, mask: Any, value: Any, start_axis: int = 0) -> Any:
    """The array with other values where the mask says."""
    made = data.copy()
    made[(*(slice(None),) * start_axis, mask)] = value
    return made


def _diag_places(x: Any) -> Any:
    """The indices of the diagonal, as one array."""
    return HOOKS.np().stack(HOOKS.np().diag_indices_from(x))


#: Functions that files have, and mx.np has not.
OF_ARRAYS: dict[str, Callable[..., Any]] = {"astype": _astype, "masked": _masked, "diag_places": _diag_places}


def never_none(function: str) -> frozenset[str]:
    """The parameters for which None is no default: it says something."""
    parameters = inspect.signature(function_of(function)).parameters.values()
    return frozenset(p.name for p in parameters if p.default is not None and p.default is not p.empty)


@register("hybrid._numpy_call")
class NumpyCall(Composite):
    """The results of a function of mx.np, in a composed graph."""

    VARIADIC = True
    SAME_DTYPE = False
    function_: str = attribute(doc="its name in mx.np")
    arguments: object = attribute(doc="its arguments and keywords, with the places of the inputs")
    results_: int = attribute(1, "how many results it has", low=1)

    def num_outputs(self) -> int:
        """As many as the function returns."""
        return self.results_

    def call(self, *inputs: Any) -> list[Any]:
        """The results of the function."""
        arrays = [as_numpy(x) for x in inputs]
        args, keywords = self.arguments  # pyright: ignore[reportGeneralTypeIssues]
        result = function_of(self.function_)(
            *[_filled(a, arrays) for a in args], **{key: _filled(a, arrays) for key, a in keywords}
        )
        return [HOOKS.np().full((), y, dtype="bool") if isinstance(y, bool) else as_numpy(y) for y in as_list(result)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        made = self.call(*inputs)
        return made[0] if self.results_ == 1 else tuple(made)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As the function says for symbols of these shapes: floats, or if it takes none integers."""
        try:
            results = self._traced(shapes, [np.dtype(np.float32)] * len(shapes))
        except DTypeError:
            results = self._traced(shapes, [np.dtype(np.int32)] * len(shapes))
        return [tuple(s) for s in shapes], [y.shape for y in results]

    def _traced(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> list[Any]:
        """The results for symbols: nothing is computed, and no random number is drawn."""
        trace = HOOKS.new_trace(False)
        trace.track_locations = False
        leaves = [trace.leaf("x", tuple(s), d, "value", numpy=True) for s, d in zip(shapes, dtypes, strict=True)]
        with trace.active():
            return self.call(*leaves)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """As for arrays of two dimensions, if the function takes these; else the promoted dtype.

        A function whose result depends on values computes it, of ones.
        """
        shapes = ((2, 2), (2, 2, 2, 2), (2,))
        of_symbols = [lambda s=s: self._traced([s] * len(dtypes), dtypes) for s in shapes]
        of_ones = [lambda s=s: self.call(*[HOOKS.wrap(np.ones(s, d)) for d in dtypes]) for s in shapes]
        for results in (*of_symbols, *of_ones):
            try:
                return dtypes, [np.dtype(y.dtype) for y in results()]
            except (MXNetError, ValueError, TypeError, IndexError):
                continue
        return dtypes, [common(dtypes)] * self.results_

    # --- files -------------------------------------------------------------------------------------------------

    def _bound(self) -> dict[str, Any]:
        """The arguments by the names of the function's parameters."""
        args, keywords = self.arguments  # pyright: ignore[reportGeneralTypeIssues]
        bound = inspect.signature(function_of(self.function_)).bind(*args, **dict(keywords))
        if "random." in self.function_:
            bound.apply_defaults()  # MXNet's operators have none
        return dict(bound.arguments)

    def _pair(self) -> tuple[Any, bool] | None:
        """The number beside an array, and whether it is the first; None if both are arrays."""
        args: Any = self.arguments[0]  # pyright: ignore[reportIndexIssue]
        numbers = [i for i, a in enumerate(args[:2]) if isinstance(a, bool | int | float)]
        return (args[numbers[0]], numbers[0] == 0) if self.function_ in PAIRS and numbers else None

    def nnvm_title(self) -> str:
        """MXNet's operator."""
        pair = self._pair()
        if pair is not None:
            name = REFLECTED.get(self.function_, f"r{self.function_}") if pair[1] else self.function_
            return f"_npi_{name}_scalar"
        if self.function_ in PAIRS:
            return f"_npi_{self.function_}"
        row = row_of_call(self.function_, self._bound())
        return f"_npi_{self.function_.rpartition('.')[2]}" if row is None else row.title

    def to_nnvm(self) -> dict[str, Any]:
        """The attributes under MXNet's names."""
        pair = self._pair()
        if pair is not None:
            return {"scalar": float(pair[0]), "is_int": isinstance(pair[0], int)}
        bound = self._bound()
        row = row_of_call(self.function_, bound)
        found = bound if row is None else to_attributes(row, self.function_, bound, never_none(self.function_))
        found = {key: value for key, value in found.items() if not _has_input(value)}
        if row is not None and row.is_list:
            found["num_args"] = sum(isinstance(a, InputPlace) for a in _flat(bound))
        return {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        """By other functions of mx.np, where MXNet has no operator for this one."""
        composed = COMPOSED.get(self.function_)
        if composed is None:
            return None
        arrays = [as_numpy(x) for x in inputs]
        args, keywords = self.arguments  # pyright: ignore[reportGeneralTypeIssues]
        return composed(F.np, *[_filled(a, arrays) for a in args], **{k: _filled(a, arrays) for k, a in keywords})


def _filled(part: Any, inputs: Sequence[Any]) -> Any:
    """An argument with the inputs at their places."""
    if isinstance(part, InputPlace):
        return inputs[part.index]
    if isinstance(part, KeySlice):
        return slice(*(_filled(p, inputs) for p in part))
    if isinstance(part, tuple):
        return tuple(_filled(p, inputs) for p in part)
    return part


def _flat(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value
    found: list[Any] = []
    for part in parts:
        nested = isinstance(part, tuple) and not isinstance(part, InputPlace | KeySlice)
        found += _flat(part) if nested else [part]
    return found


def _has_input(value: Any) -> bool:
    return any(isinstance(part, InputPlace) for part in _flat([value]))


# --- reading -----------------------------------------------------------------------------------------------------


def of_file(title: str, attrs: Mapping[str, str], count: int) -> NumpyCall | None:
    """The call of an operator of a file with so many inputs; None if it is none of ``mx.np``."""
    places = [InputPlace(i) for i in range(count)]
    title = WITHOUT_AXES.get(title, title) if STATE.np_shape else title
    scalar = re.fullmatch(r"_npi_(r?)(\w+)_scalar", title)
    if scalar is not None and count == 1 and "scalar" in attrs:
        reflected, name = (scalar[1], scalar[2]) if scalar[2] in PAIRS else ("", scalar[1] + scalar[2])
        number: Any = float(attrs["scalar"])
        # MXNet writes 4.0, which is no int, for lcm(4, x).
        is_int = attrs.get("is_int") in ("True", "1") or (name in OF_INTEGERS and number.is_integer())
        number = int(number) if is_int else number
        return _call(name, (number, *places) if reflected else (*places, number), {}) if name in PAIRS else None
    if title.startswith("_npi_") and title.removeprefix("_npi_") in PAIRS:
        if count != 2:
            raise MXNetError(f"{title} takes two inputs, got {count}")
        return _call(title.removeprefix("_npi_"), places, {})
    row = BY_TITLE.get(title)
    if row is None:
        return None
    values = {key: _value(text) for key, text in attrs.items()}
    arguments = to_arguments(row, values, count, never_none(row.function))
    if arguments is None:
        raise MXNetError(f"{title} has {count} inputs, which are more than its attributes leave open")
    if row.function == "einsum":
        return _call("einsum", (arguments.pop("subscripts"), *places), arguments)
    places = [] if row.arrays else places
    return _call(row.function, (tuple(places),) if row.is_list else places, arguments, row)


def _value(text: str) -> Any:
    """The value of an attribute of a file."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _call(name: str, args: Sequence[Any], keywords: Mapping[str, Any], row: NumpyName | None = None) -> NumpyCall:
    parts = tuple((key, hashable(value)) for key, value in keywords.items())
    starred = row is not None and row.function.startswith("atleast")
    given = args[0] if starred else args
    made: Any = NumpyCall.bind(
        function=name, arguments=(tuple(given), parts), results=results_of(name, given, keywords)
    )
    return made


def hashable(value: Any) -> Any:
    """An argument that may be an attribute: lists are tuples, dtypes are their names."""
    if isinstance(value, list | tuple) and not isinstance(value, InputPlace | KeySlice):
        return tuple(hashable(part) for part in value)
    if isinstance(value, slice):
        return KeySlice(hashable(value.start), hashable(value.stop), hashable(value.step))
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    return value.item() if isinstance(value, np.generic) else value


_PAIRS_OF_INDICES = frozenset(
    ["diag_indices", "diag_indices_from", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from"]
)


def results_of(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> int:
    """How many results a call has."""
    plain = name.rpartition(".")[2]
    if plain in ("split", "array_split", "hsplit", "vsplit", "dsplit"):
        cuts = keywords["indices_or_sections"] if "indices_or_sections" in keywords else args[1]
        return cuts if isinstance(cuts, int) else len(cuts) + 1
    if plain == "unravel_index":
        shape = keywords["shape"] if "shape" in keywords else args[1]
        return 1 if isinstance(shape, int) else len(shape)
    if plain in _PAIRS_OF_INDICES:  # of matrices
        return 2
    if plain in ("ix_", "broadcast_arrays", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d"):
        return len(args)
    if plain in ("unique", "average"):
        bound = inspect.signature(function_of(name)).bind(*args, **keywords).arguments
        return 1 + sum(bool(value) for key, value in bound.items() if key.startswith("return"))
    return {"svd": 3, "qr": 2, "eigh": 2, "eig": 2, "slogdet": 2, "histogram": 2}.get(plain, 1)
