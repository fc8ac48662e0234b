"""Typed attributes of operators: defaults, ranges, enums, docs; strings are accepted, as MXNet did."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from hybridc.dtypes import ABSENT, DType
from hybridc.errors import AttributeValueError, DTypeNameError, MXNetError, UnsupportedError
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import is_size


class _Required:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Any = _Required()

Shape = tuple[int, ...]
Axis = int | tuple[int, ...] | None


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operator class: its type, default and range."""

    default: Any
    doc: str
    enum: tuple[str, ...] | None
    low: float | None
    high: float | None
    kind: str = "object"
    optional: bool = False

    def parse(self, owner: str, name: str, value: Any) -> Any:
        """The validated value, or an error that says what is allowed."""
        if value.__class__ is float and type(value) is not float:  # a Varying, whose value is used now
            value = float(value)
        if value is None or (isinstance(value, str) and value == "None" and self.optional):
            if self.optional or self.default is None:
                return None
            raise AttributeValueError(f"{owner}: attribute {name} must not be None; it takes {self.describe()}")
        try:
            value = PARSERS[self.kind](value)
        except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
            kind = DTypeNameError if self.kind == "DType" else AttributeValueError
            text = f"{owner}: attribute {name} takes {self.describe()}, got {_shown(value)}"
            if self.kind in ("bool", "DType") and isinstance(value, int):
                text += "; several sizes or axes are one argument, a tuple"
            raise kind(text) from error
        if self.enum is not None and value not in self.enum:
            raise AttributeValueError(f"{owner}: attribute {name} takes {self.describe()}, got {value!r}")
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise AttributeValueError(f"{owner}: attribute {name} takes {self.describe()}, got {value!r}")
        return value

    def gives(self, value: Any, bound: Any) -> bool:
        """Whether a value of a call is the one that an operator was bound with."""
        if value is None and self.kind == "DType":  # MXNet takes None for float64
            return False
        if value is bound or (value is None and bound == self.default):
            return True
        try:
            return bool(self.parse("", "", value) == bound)
        except MXNetError:
            return False

    def spelled(self, value: Any, bound: str) -> str:
        """The text that MXNet keeps of a value of a call: as Python writes it, if MXNet can read that.

        ``bound`` is the text of the value that the operator was bound with, for what MXNet could not read.
        """
        if isinstance(value, str):
            return value
        if self.kind in ("Shape", "Axes", "Axis", "Slice", "Steps", "Floats") and isinstance(value, list | tuple):
            members = [_plain(member) for member in cast("list[Any] | tuple[Any, ...]", value)]
            return str(members if isinstance(value, list) else tuple(members))
        number = _plain(value)
        if number is None:
            return "None"
        if type(number) is bool or self.kind == "bool":
            return str(number) if self.kind == "bool" and type(number) in (bool, int) and number in (0, 1) else bound
        readable = type(number) is int or (type(number) is float and self.kind == "float")
        return str(value) if readable else bound  # else a dtype, an array, a symbolic size

    def describe(self) -> str:
        """The allowed values, as text."""
        if self.enum is not None:
            return "one of " + ", ".join(repr(choice) for choice in self.enum)
        text = {
            "int": "an integer",
            "Index": "an integer",
            "float": "a number",
            "bool": "True or False",
            "str": "a string",
        }
        text |= {
            "Shape": "a tuple of integers",
            "Axes": "a tuple of integers",
            "Axis": "an integer or a tuple of integers",
            "DType": "a dtype",
        }
        words = text.get(self.kind, "a value")
        if self.low is not None and self.high is not None:
            return f"{words} from {self.low} to {self.high}"
        if self.low is not None:
            return f"{words} of at least {self.low}"
        return words


def attribute(
    default: Any = REQUIRED,
    doc: str = "",
    *,
    enum: tuple[str, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Any:
    """Declare an attribute in the body of an operator class: ``axis: int = attribute(-1, "the axis")``.

    The annotation gives its type: ``int``, ``float``, ``bool``, ``str``, ``Shape``, ``Axis``, ``DType`` or ``object``,
    each also with ``| None``.

    Parameters
    ----------
    default:
        What it is where a call does not say it; without a default it is required.
    doc:
        What it is, for the function's documentation; what begins with "internal" is in none.
    enum:
        The texts that it may be; None for any value.
    low, high:
        The least and the largest value; None for no limit.
    """
    return Attribute(default, doc, enum, low, high)


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's."""
    number: Any = value
    return number.item() if isinstance(value, np.generic) else number


def literal(value: Any) -> Any:
    """A value, or the one that a text writes, in the Python of any time.

    Texts of Python 2 have long integers, ``(3L, 2L)``; those of NumPy 2 have ``(np.int64(3), 2)``.
    """
    if not isinstance(value, str):
        return value
    text = re.sub(r"(?<=\d)[lL]\b", "", value)
    return ast.literal_eval(re.sub(r"\b(?:np|numpy)\.\w+\(([^()]*)\)", r"\1", text))


def parse_bool(value: Any) -> bool:
    """A bool from a bool, a number or a word."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word not in ("true", "false", "1", "0"):
            raise ValueError(value)
        return word in ("true", "1")
    if isinstance(value, int) and value not in (0, 1):
        raise ValueError(value)
    return bool(value)


def parse_int(value: Any) -> int:
    """A 64-bit integer; floats only if they are whole."""
    value = literal(value)
    if is_size(value):
        return cast("int", value)
    number = int(value)
    if number != value or not -(2**63) <= number < 2**63:
        raise ValueError(value)
    return number


def _shown(value: Any) -> str:
    """A value in an error's text, shortened."""
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"an integer of {value.bit_length()} bits, which is more than 64"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:80]}… ({len(text)} characters)"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer)


def parse_shape(value: Any) -> Shape:
    """A tuple of integers; a single integer is a tuple of one."""
    value = literal(value)
    if _is_integer(value):
        return (parse_int(value),)
    return tuple(parse_int(v) for v in value)


def parse_axis(value: Any) -> Axis:
    """One integer or a tuple of them."""
    value = literal(value)
    if _is_integer(value):
        return parse_int(value)
    return tuple(parse_int(v) for v in value)


def parse_slice(value: Any) -> tuple[int | None, ...]:
    """A tuple of integers and None, as begin, end and step of ``slice``."""
    value = literal(value)
    if value is None or isinstance(value, int | np.integer):
        value = (value,)
    return tuple(None if v is None else parse_int(v) for v in value)


def parse_dtype(value: Any) -> DType:
    """A NumPy dtype from its name, type or itself.

    Raises:
        UnsupportedError: it is of ml_dtypes, and that is not installed.
    """
    if isinstance(value, str) and value in ABSENT:
        raise UnsupportedError(f"arrays of {value} need the package ml_dtypes: pip install ml_dtypes")
    return np.dtype(value)


def _parse_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _parse_float(value: Any) -> float:
    """A float; an integer where no float is equal to it, so that it stays exact beside arrays of integers."""
    value = literal(value) if isinstance(value, str) and value.strip()[-1:].isdigit() else value
    number = float(value)
    return value if isinstance(value, int) and number != value else number


def _parse_floats(value: Any) -> tuple[float, ...]:
    value = literal(value)
    return (float(value),) if isinstance(value, int | float) else tuple(float(v) for v in value)


def _identity(value: Any) -> Any:
    return value


PARSERS: dict[str, Callable[[Any], Any]] = {
    "int": parse_int,
    "float": _parse_float,
    "bool": parse_bool,
    "str": _parse_str,
    "Shape": parse_shape,
    "Axis": parse_axis,
    "Slice": parse_slice,
    "Axes": parse_shape,
    "Steps": parse_slice,
    "Index": parse_int,
    "Floats": _parse_floats,
    "DType": parse_dtype,
    "Body": _identity,
    "object": _identity,
}
Slice = tuple[int | None, ...]
# As the two above, where the integers are no sizes: a graph is compiled for one value of them.
Axes = tuple[int, ...]
Steps = tuple[int | None, ...]
# An index along an axis, which users compute from sizes.
Index = int
Floats = tuple[float, ...]


# How Python prints the aliases above in evaluated annotations; longer ones first.
_ALIASES = {
    str(alias): name
    for name, alias in {"Axis": Axis, "Slice": Slice, "Floats": Floats, "Shape": Shape, "DType": DType}.items()
}


def _written(annotation: Any) -> str:
    """An annotation as in the source, also in a module without ``from __future__ import annotations``."""
    if isinstance(annotation, str):
        return annotation
    text = annotation.__name__ if annotation.__class__ is type else str(annotation)
    for alias, name in _ALIASES.items():
        text = text.replace(alias, name)
    return text


def from_annotation(declared: Attribute, annotation: Any) -> Attribute:
    """The attribute with the type that its annotation names."""
    annotation = _written(annotation)
    words = [word.strip() for word in annotation.split("|")]
    kinds = [word for word in words if word != "None"]
    kind = kinds[0] if kinds and kinds[0] in PARSERS else "object"
    return Attribute(
        declared.default,
        declared.doc,
        declared.enum,
        declared.low,
        declared.high,
        kind,
        "None" in words or kind == "Axis",
    )
