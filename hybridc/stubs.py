"""Write the types of what has no source: ``python -m hybridc.stubs``; ``--check`` only compares.

Functions and methods of operators are made when they are first used, and namespaces are imported then; type checkers
and editors see neither. The files ``*.pyi`` say what there is, written from the operator classes and the modules.
One text serves ``mx.nd`` and ``mx.sym``: of NDArrays a function makes NDArrays, of Symbols Symbols.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hybridc
from hybridc.aliases import OTHER_NAMES
from hybridc.array.fluent import METHODS
from hybridc.array.functions import function
from hybridc.dialects.operator import Elementwise, Operator
from hybridc.dialects.operator_attribute import REQUIRED, Attribute
from hybridc.dialects.operator_registry import functions
from hybridc.dialects.scalar.table import STEPS
from hybridc.errors import MXNetError
from hybridc.ground.whole_files import write_whole
from hybridc.np import methods
from hybridc.operator import f_functions, scalar_steps

PACKAGE = Path(hybridc.__file__).parent
_HEADER = "# Written by python -m hybridc.stubs; do not edit.\n# pyright: reportUnusedImport=false\n"
FUNCTIONS = functions()
_OF_ARRAYS = "from hybridc.array.drawn_arrays import *\nfrom hybridc.array.operator_functions import *\n"
_TYPES = """\
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.array.ndarray import NDArray
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

"""
_SEVERAL = '''\
"""Several arrays, of which the type does not say whether they are a list: these have what both would have."""
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportGeneralTypeIssues=false
from collections.abc import Iterator
from typing import Any

from hybridc.array.ndarray import NDArray

class Arrays(list[NDArray], dict[Any, NDArray]):
    """The arrays of a file: a list, or a dict if they have names."""

    def __getitem__(self, key: Any, /) -> NDArray: ...
    def __iter__(self) -> Iterator[Any]: ...

class Batch(NDArray, list[NDArray]):
    """A batch: an array, or a list of them where samples have several parts."""

    def __getitem__(self, key: Any, /) -> NDArray: ...
    def __iter__(self) -> Iterator[NDArray]: ...
'''
# What makes arrays and is not an operator's function.
_CREATION = (
    "arange",
    "array",
    "concatenate",
    "empty",
    "eye",
    "full",
    "linspace",
    "moveaxis",
    "ones",
    "power",
    "split_v2",
    "zeros",
)
# Parameters and results of functions that are written by hand.
_BY_HAND = {
    "where": ("condition: Fluent, x: _A, y: _A, out: Any = None, name: str | None = None", "_A"),
}
# Values for attributes that must be given, by their kind.
_GIVEN: dict[str, Any] = {
    "int": 2,
    "Index": 1,
    "Shape": (1,),
    "Axes": (0,),
    "Axis": 0,
    "Floats": (1.0,),
    "bool": True,
    "DType": "float32",
    "str": "x",
}
_NUMPY_TYPES = """\
from builtins import bool as _bool  # mx.np.bool is NumPy's
from collections.abc import Sequence
from typing import Any, Self

import numpy
from numpy import dtype

from hybridc.array.numpy_array import ndarray as ndarray
from hybridc.context import Context

ShapeLike = int | Sequence[int]
"""
_NUMPY_WORDS = {"int", "float", "bool", "str", "Any", "None", "Context", "Sequence", "tuple", "list", "ShapeLike"}
# Results of functions of mx.np that are no arrays, where their own signatures do not say so.
_PAIR = "tuple[ndarray, ndarray]"
_NUMPY_RESULTS = {
    **dict.fromkeys(("divmod", "frexp", "modf", "polydiv", "eig", "eigh", "slogdet"), _PAIR),
    **dict.fromkeys(("nonzero",), "tuple[ndarray, ...]"),
    **dict.fromkeys(("svd",), "tuple[ndarray, ndarray, ndarray]"),
    # of which the arguments say how many arrays, or of what class, they give
    **dict.fromkeys(
        ("where", "qr", "lstsq", "histogram2d", "histogramdd", "genfromtxt", "einsum_path", "as_numpy"), "Any"
    ),
    **dict.fromkeys(("rate", "npv", "pv", "mirr", "ppmt"), "Any"),
    **dict.fromkeys(("called_as_ufunc", "called_by_numpy"), "Any"),
}
# What an attribute of a kind takes.
_KINDS = {
    **dict.fromkeys(("int", "Index"), "int"),
    "float": "float",
    "bool": "bool | int",
    "str": "str",
    **dict.fromkeys(("Shape", "Axes", "Axis"), "int | Sequence[int]"),
    **dict.fromkeys(("Slice", "Steps"), "int | Sequence[int | None]"),
    "Floats": "float | Sequence[float]",
    "DType": "DTypeLike",
}
# Namespaces of operators, and how the names of theirs begin in the registry.
_NAMESPACES = {
    "contrib": ("contrib.", "_contrib_"),
    "image": ("image.",),
    "linalg": ("linalg.", "linalg_"),
    "random": ("random.", "random_"),
}
# What mx.sym makes without an input: MXNet's parameters are others than those of mx.nd.
_SYMBOLS = """
def zeros(shape: int | Sequence[int], dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def ones(shape: int | Sequence[int], dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def full(shape: int | Sequence[int], val: float, dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def eye(N: int, M: int = 0, k: int = 0, dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: DTypeLike | None = None,
) -> ComposedSymbol: ...
def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None, dtype: DTypeLike | None = None
) -> ComposedSymbol: ...
"""


def stubs() -> dict[Path, str]:
    """The text of every stub, by its file."""
    dir(hybridc.nd)
    files = {
        "array/drawn_arrays.pyi": _TYPES + "\n".join(_function(name, name) for name in _drawn()) + "\n",
        "array/numpy_methods.pyi": _numpy_methods(),
        "array/operator_functions.pyi": _functions(),
        "array/operator_methods.pyi": _methods(),
        "array/several_arrays.pyi": _SEVERAL,
        "operator/f_functions.pyi": _of_f(),
        "np/__init__.pyi": _of_numpy("hybridc.np"),
        "np/linalg.pyi": _of_numpy("hybridc.np.linalg"),
        "np/random.pyi": _of_numpy("hybridc.np.random"),
        "npx/__init__.pyi": _of_module("hybridc.npx", _OF_ARRAYS),
        "operator/scalar_steps.pyi": _of_steps(),
        "nd/__init__.pyi": _of_module("hybridc.nd", _OF_ARRAYS),
        "nd/op.pyi": _OF_ARRAYS,
        "symbol/__init__.pyi": _of_symbols(),
        "symbol/op.pyi": "from hybridc.array.operator_functions import *\n",
        "__init__.pyi": _of_package(),
    }
    for namespace in _NAMESPACES:
        text = _of_namespace(namespace)
        files[f"nd/{namespace}.pyi"] = text
        files[f"symbol/{namespace}.pyi"] = _for_symbols(text)
    for other, real in OTHER_NAMES.items():
        if "." not in other and ((PACKAGE / real).exists() or (PACKAGE / f"{real}.py").exists()):
            files[f"{other}.pyi"] = f"from hybridc.{real} import *\n"
    return {PACKAGE / name: _HEADER + text for name, text in files.items()}


# --- operators -----------------------------------------------------------------------------------------------


def _public() -> list[str]:
    """The names of functions of operators that are not written by hand, as zeros is, which has a device."""
    by_hand: set[str] = {*vars(hybridc.nd)["__all__"]}
    return sorted(n for n in FUNCTIONS if "." not in n and not n.startswith("_") and n not in by_hand)


def _names() -> dict[type[Operator], str]:
    """The first public name of each operator; its other names stand for the same function."""
    return {FUNCTIONS[name]: name for name in reversed(_public())}


def _drawn() -> list[str]:
    """The functions whose result does not follow from the class of an input: of ``mx.sym`` they make symbols."""
    return sorted(n for n in _public() if FUNCTIONS[n].function() is None and "NDArray" in _result(FUNCTIONS[n]))


def _functions() -> str:
    first = {cls: name for cls, name in _names().items() if name not in _drawn()}
    lines = [_function(name, name) for name in sorted(first.values())]
    again = [n for n in _public() if FUNCTIONS[n] in first and n != first[FUNCTIONS[n]]]
    lines += [f"{n} = {first[FUNCTIONS[n]]}" for n in again]
    return _TYPES + "\n".join(lines) + "\n"


def _function(shown: str, name: str) -> str:
    """The function of an operator, with its parameters and the first sentence of its text."""
    cls = FUNCTIONS[name]
    if cls.function() is not None:
        return _by_hand(shown, function(name))
    lines = [f"def {shown}("]
    lines += [f"    {parameter}," for parameter in _parameters(cls)]
    result = _result(cls)
    if "_A" not in result:
        lines = [line.replace("_A", "Fluent") for line in lines]
    lines += [f") -> {result}:", f"    {_quoted(cls.__doc__ or cls.title())}", "    ...", ""]
    return "\n".join(lines)


def _by_hand(shown: str, made: Callable[..., Any]) -> str:
    parameters = inspect.signature(made).parameters.values()
    shown_parameters = ", ".join(_plain(p) for p in parameters)
    text = _quoted(made.__doc__ or shown)
    shown_parameters, result = _BY_HAND.get(shown, (shown_parameters, "Any"))
    return f"def {shown}({shown_parameters}) -> {result}:\n    {text}\n    ...\n"


def _plain(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else " = ..."
    return f"{star}{parameter.name}: Any{default}"


def _parameters(cls: type[Operator]) -> Iterator[str]:
    """Inputs, attributes and what every operator takes, as they are written in a stub."""
    inputs = [n for n in cls.INPUTS if not (cls.DRAWS and n == "key")]
    taken = "_A | float" if issubclass(cls, Elementwise) and len(inputs) > 1 else "_A"
    required = True
    if cls.VARIADIC:
        yield f"*{inputs[0]}: _A"
    else:
        for i, name in enumerate(inputs):
            required = i == 0 and len(inputs) > cls.OPTIONAL  # symbols make variables of the others that are missing
            yield f"{name}: {taken}" if required else f"{name}: {taken} | None = None"
    for name, declared in cls.ATTRIBUTES.items():
        if declared.doc.startswith("internal"):
            continue
        is_free = (required or cls.VARIADIC) and declared.default is REQUIRED
        required = required and declared.default is REQUIRED
        yield f"{name}: {_type(declared)}{'' if is_free else ' = ' + _default(declared.default)}"
    yield from ("out: Any = None", "name: str | None = None", "ctx: Context | None = None")
    yield "attr: dict[str, str] | None = None"


def _type(declared: Attribute) -> str:
    text = _KINDS.get(declared.kind, "Any")
    if declared.enum is not None and declared.kind == "str":
        text = f"Literal[{', '.join(map(repr, declared.enum))}] | str"
    nothing = (declared.optional or declared.default is None) and text != "Any"
    return f"{text} | None" if nothing else text


def _default(default: Any) -> str:
    is_plain = default is None or isinstance(default, bool | int | str)
    is_plain = is_plain or (isinstance(default, float) and math.isfinite(default)) or default == ()
    return repr(default) if is_plain else "..."


def _result(cls: type[Operator]) -> str:
    """The type of the result: one array or a list of them, of the kind of the inputs.

    Attributes may ask for more results than there mostly are: an array has items, too, and can be unpacked.
    """
    count = _results(cls)
    if count is None:
        return "Any"
    one = "NDArray" if _only_key(cls) else "_A"
    return one if count == 1 else f"list[{one}]"


def _results(cls: type[Operator]) -> int | None:
    """How many results an operator has, with such values for the attributes that must be given; None if unknown."""
    is_one = cls.num_outputs is Operator.num_outputs and cls.num_visible_outputs is Operator.num_visible_outputs
    if is_one and not cls.MUTATES and cls.mutates is Operator.mutates:
        return 1
    needed = {n: a for n, a in cls.ATTRIBUTES.items() if a.default is REQUIRED}
    try:
        return cls.bind(
            **{n: a.enum[0] if a.enum else _GIVEN.get(a.kind, 1.0) for n, a in needed.items()}
        ).num_visible_outputs()
    except (MXNetError, TypeError, ValueError):
        return None


def _only_key(cls: type[Operator]) -> bool:
    return not cls.VARIADIC and cls.INPUTS in ((), ("key",))


def _quoted(text: str) -> str:
    first = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return f'"""{first}"""'.replace("\\", "\\\\")


def _methods() -> str:
    lines = [
        "from collections.abc import Sequence",
        "from typing import Any, Literal, Self",
        "",
        "from numpy.typing import DTypeLike",
        "",
        "from hybridc.context import Context",
        "",
        "class OperatorMethods:",
    ]
    for name in filter(FUNCTIONS.__contains__, METHODS.split()):
        cls = FUNCTIONS[name]
        parameters = ["self", *list(_parameters(cls))[1:]] if not cls.VARIADIC else ["self", "*args: Any"]
        if name == "broadcast_to":  # the shape as one tuple or as several numbers
            parameters = ["self", "*shape: int | Sequence[int]"]
        text = ", ".join(parameters).replace("_A", "Any")
        lines.append(f"    def {name}({text}) -> {_result(cls).replace('_A', 'Self')}: ...")
    return "\n".join(lines) + "\n"


def _of_f() -> str:
    """What ``F`` is: the functions as attributes of a class, the namespaces as classes inside it."""
    lines = [
        _quoted(f_functions.__doc__ or ""),
        "",
        "from typing import Any",
        "",
        "from hybridc.array import drawn_arrays as _drawn",
        "from hybridc.array import operator_functions as _functions",
    ]
    lines += [f"from hybridc.nd import {namespace} as _{namespace}" for namespace in _NAMESPACES]
    lines += ["from hybridc.nd import creation as _creation", ""]
    lines += ["class Functions:", f"    {_quoted(f_functions.Functions.__doc__ or '')}", ""]
    for namespace in _NAMESPACES:
        tree = ast.parse(_of_namespace(namespace))
        names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
        names += [ast.unparse(n.targets[0]) for n in tree.body if isinstance(n, ast.Assign)]
        lines.append(f"    class {namespace}:")
        lines += [
            f"        {n} = staticmethod(_{namespace}.{n})"
            for n in sorted({*names})
            if n[0] not in "_" and n != "ShapeLike"
        ]
    lines += [f"    {n} = staticmethod(_creation.{n})" for n in _CREATION]
    lines += [f"    {n} = staticmethod({'_drawn' if n in _drawn() else '_functions'}.{n})" for n in _public()]
    lines += ["    np: Any", "    npx: Any"]
    return "\n".join(lines) + "\n"


def _of_steps() -> str:
    """The steps of scalar bodies, by their table."""
    lines = [
        _quoted(scalar_steps.__doc__ or ""),
        "",
        "from typing import Protocol, TypeAlias",
        "",
        "import numpy.typing as npt",
        "",
        "from hybridc.dialects.scalar import Scalar",
        "",
        "Value: TypeAlias = Scalar",
        "Operand: TypeAlias = Scalar | float",
        "",
        "class Steps(Protocol):",
        f"    {_quoted(scalar_steps.Steps.__doc__ or '')}",
    ]
    for step in STEPS.values():
        operands = [operand if ":" in operand else f"{operand}: Operand" for operand in step.operands]
        lines += ["", f"    def {step.name}(self, {', '.join(operands)}, /) -> Value:", f"        {_quoted(step.doc)}"]
        lines += ["        ..."]
    return "\n".join(lines) + "\n"


# --- mx.np ---------------------------------------------------------------------------------------------------


def _of_numpy(module_name: str) -> str:
    """The functions, numbers and types of ``mx.np`` or of a module of it."""
    module = importlib.import_module(module_name)
    lines = [_NUMPY_TYPES]
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name in ("Any", "annotations"):
            continue
        if inspect.ismodule(value):
            if value.__name__ in ("hybridc.np.linalg", "hybridc.np.random"):
                lines.append(f"from hybridc.np import {name} as {name}")
        elif inspect.isfunction(value):
            lines.append(_numpy_function(name, value))
        elif inspect.isclass(value):
            place = value.__module__ if not isinstance(value, type(np.dtype)) else "numpy"
            if place == module_name:
                lines.append(f"{name}: Any")
            elif place.partition(".")[0] in ("numpy", "hybridc"):
                lines.append(f"from {place} import {value.__name__} as {name}")
        elif value is None or isinstance(value, float):
            lines.append(f"{name}: {'None' if value is None else 'float'}")
    return "\n".join(lines) + "\n"


def _numpy_function(name: str, made: Callable[..., Any], is_method: bool = False) -> str:
    """A function of ``mx.np``, or the method that it is of its first parameter."""
    signature = inspect.signature(made)
    own = [*signature.parameters.values()][is_method:]
    parameters = [_numpy_parameter(p) for p in own]
    kinds = [p.kind for p in own]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    result = _NUMPY_RESULTS.get(name) or _numpy_result(signature.return_annotation)
    if is_method:
        parameters, result = ["self", *parameters], result.replace("ndarray", "Self")
    text = f"def {name}({', '.join(parameters)}) -> {result}:"
    text = re.sub(r"(: |\| |> )bool\b", r"\1_bool", text)
    return f"{text}\n    {_quoted(made.__doc__ or name)}\n    ..."


def _numpy_parameter(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = "Any" if parameter.annotation is parameter.empty else str(parameter.annotation)
    words = {n.id for n in ast.walk(ast.parse(annotation)) if isinstance(n, ast.Name)}
    default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
    return f"{star}{parameter.name}: {annotation if words <= _NUMPY_WORDS else 'Any'}{default}"


def _numpy_result(annotation: Any) -> str:
    text = "Any" if annotation is inspect.Signature.empty else str(annotation)
    if text in ("Any", "ndarray"):
        return "ndarray"
    return {"list[Any]": "list[ndarray]", "tuple[Any, ...]": "tuple[ndarray, ...]", "onp.dtype[Any]": "dtype[Any]"}.get(
        text, text if text in ("bool", "int", "None", "tuple[int, ...]") else "Any"
    )


def _numpy_methods() -> str:
    """The methods of arrays and symbols of ``mx.np``, which are its functions, and Python's operators."""
    table: Mapping[str, Any] = vars(methods)
    made: dict[str, Any] = {
        **table["_METHODS"],
        **{name: table[f"_{name}"] for name in ("astype", "flatten", "reshape", "round", "transpose")},
    }
    lines = [_NUMPY_TYPES.replace("from hybridc.array.numpy_array import ndarray as ndarray\n", "")]
    lines.append("class NumpyFunctionMethods:")
    for name, each in made.items():
        lines += ["    " + line for line in _numpy_function(name, each, is_method=True).split("\n")]
    for name in table["_OPERATORS"]:
        result = "tuple[Self, Self]" if name == "divmod" else "Self"
        lines += [f"    def __{start}{name}__(self, other: Any) -> {result}: ..." for start in ("", "r")]
    lines += [f"    def __i{name}__(self, other: Any) -> Self: ..." for name in table["_INPLACE"]]
    lines += [f"    def __{name}__(self, other: Any) -> Self: ..." for name in table["_COMPARISONS"]]
    lines += [f"    def __{name}__(self) -> Self: ..." for name in ("neg", "pos", "invert", "abs")]
    lines.append("    reshape_view = reshape")
    return "\n".join(lines) + "\n"


# --- modules -------------------------------------------------------------------------------------------------


def _of_namespace(namespace: str) -> str:
    """A namespace of operators: the functions that its module has, then those of operators."""
    module = _of_module(f"hybridc.nd.{namespace}", "")
    found = {
        n.removeprefix(start): n for start in reversed(_NAMESPACES[namespace]) for n in FUNCTIONS if n.startswith(start)
    }
    own = {n for n in vars(importlib.import_module(f"hybridc.nd.{namespace}")) if f"def {n}(" in module}
    names = sorted(n for n in found if n.isidentifier() and n not in own)
    first = _names()
    again = [n for n in names if FUNCTIONS[found[n]] in first and first[FUNCTIONS[found[n]]] not in _drawn()]
    if again:
        module += "from hybridc.array import operator_functions as _functions\n"
    module += "".join(f"{n} = _functions.{first[FUNCTIONS[found[n]]]}\n" for n in again)
    only = [n for n in names if n not in again]
    return (_TYPES if only else "") + module + "\n" + "\n".join(_function(n, found[n]) for n in only)


def _of_module(name: str, more: str) -> str:
    """The names that a module has at its top level, without the bodies of functions."""
    path = importlib.import_module(name).__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text())
    lines: list[str] = []
    for node in tree.body:
        lines += _of_statement(node)
    return "\n".join(lines) + "\n" + more


def _of_statement(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [f"import {a.name}" + (f" as {a.asname}" if a.asname else "") for a in node.names]
    if isinstance(node, ast.ImportFrom) and node.module != "__future__":
        return [f"from {node.module} import {a.name} as {a.asname or a.name}" for a in node.names]
    if isinstance(node, ast.FunctionDef) and not (node.name.startswith("__")):
        doc = ast.get_docstring(node)
        node.body = [ast.Expr(ast.Constant(...))]
        text = ast.unparse(node)
        return [text.removesuffix("...") + f"{_quoted(doc)}\n    ..." if doc else text]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):  # the alias of a type
        return [ast.unparse(node)]
    return []


def _of_symbols() -> str:
    module = importlib.import_module("hybridc.symbol")
    made = ("ComposedSymbol", "Symbol", "Group", "Variable", "load", "load_json", "var")
    places = {name: getattr(module, name).__module__ for name in made}
    lines = ["from collections.abc import Sequence", "from typing import Any", ""]
    lines += ["from numpy.typing import DTypeLike", "", "from hybridc.array.operator_functions import *"]
    lines += [f"from {place} import {name} as {name}" for name, place in sorted(places.items(), key=lambda p: p[1])]
    lines += [f"from hybridc.symbol import {name} as {name}" for name in ("contrib", "image", "linalg", "op", "random")]
    made_of_nothing = "\n".join(_function(name, name).replace("NDArray", "ComposedSymbol") for name in _drawn())
    types = [f"from typing import {name}" for name in ("Literal", "TypeVar")]
    types += ["from hybridc.array.fluent import Fluent", "from hybridc.context import Context"]
    return "\n".join([*lines, *types]) + "\n" + _SYMBOLS + made_of_nothing


def _for_symbols(text: str) -> str:
    """A namespace of ``mx.sym``, by the text of that of ``mx.nd``: what is made of nothing is a symbol."""
    text = re.sub("from hybridc.array.ndarray import .*", "from hybridc.symbol.composed import ComposedSymbol", text)
    return re.sub(r"\bNDArray\b(?!`)", "ComposedSymbol", text)


def _of_package() -> str:
    lines = _of_module("hybridc", "").splitlines()
    places = {name: module.rpartition(".")[2] for name, module in sorted(vars(hybridc)["_NAMESPACES"].items())}
    lines += [f"from hybridc import {last} as {last}" for last in sorted({*places.values()})]
    lines += [f"{name} = {last}" for name, last in places.items() if name != last]
    lines.append("__version__: str")
    return "\n".join(lines) + "\n"


def main(arguments: Iterable[str]) -> int:
    """Write the stubs, or say which are out of date."""
    made = stubs()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    gone = [p for p in PACKAGE.rglob("*.pyi") if p not in made]
    if "--check" in arguments:
        for path in (*stale, *gone):
            print(f"out of date: {path.relative_to(PACKAGE.parent)}", file=sys.stderr)
        return int(bool(stale or gone))
    for path in stale:
        write_whole(path, made[path].encode())
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
