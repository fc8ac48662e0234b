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
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import hybridc
from hybridc.aliases import OTHER_NAMES
from hybridc.array.fluent import METHODS
from hybridc.array.functions import function
from hybridc.dialects.operator import Elementwise, Operator
from hybridc.dialects.operator_attribute import REQUIRED, Attribute
from hybridc.dialects.operator_registry import functions
from hybridc.dialects.scalar.table import STEPS
from hybridc.ground.whole_files import write_whole
from hybridc.operator import scalar_steps

PACKAGE = Path(hybridc.__file__).parent
_HEADER = "# Written by python -m hybridc.stubs; do not edit.\n# pyright: reportUnusedImport=false\n"
FUNCTIONS = functions()
_TYPES = """\
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

"""
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
        "array/operator_functions.pyi": _functions(),
        "array/operator_methods.pyi": _methods(),
        "operator/scalar_steps.pyi": _of_steps(),
        "nd/__init__.pyi": _of_module("hybridc.nd", "from hybridc.array.operator_functions import *\n"),
        "nd/op.pyi": "from hybridc.array.operator_functions import *\n",
        "symbol/__init__.pyi": _of_symbols(),
        "symbol/op.pyi": "from hybridc.array.operator_functions import *\n",
        "__init__.pyi": _of_package(),
    }
    for namespace in _NAMESPACES:
        files[f"nd/{namespace}.pyi"] = _of_namespace(namespace)
        files[f"symbol/{namespace}.pyi"] = f"from hybridc.nd.{namespace} import *\n"
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


def _functions() -> str:
    first = _names()
    lines = [_function(name, name) for name in sorted(first.values())]
    lines += [f"{n} = {first[FUNCTIONS[n]]}" for n in _public() if n != first[FUNCTIONS[n]]]
    return _TYPES + "\n".join(lines) + "\n"


def _function(shown: str, name: str) -> str:
    """The function of an operator, with its parameters and the first sentence of its text."""
    cls = FUNCTIONS[name]
    if cls.function() is not None:
        return _by_hand(shown, function(name))
    lines = [f"def {shown}("]
    lines += [f"    {parameter}," for parameter in _parameters(cls)]
    if _result(cls) == "Any":
        lines = [line.replace("_A", "Fluent") for line in lines]
    lines += [f") -> {_result(cls)}:", f"    {_quoted(cls.__doc__ or cls.title())}", "    ...", ""]
    return "\n".join(lines)


def _by_hand(shown: str, made: Callable[..., Any]) -> str:
    parameters = inspect.signature(made).parameters.values()
    shown_parameters = ", ".join(_plain(p) for p in parameters)
    text = _quoted(made.__doc__ or shown)
    return f"def {shown}({shown_parameters}) -> Any:\n    {text}\n    ...\n"


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
    """The type of the result: one array, or what depends on the attributes."""
    is_one = cls.num_outputs is Operator.num_outputs and cls.num_visible_outputs is Operator.num_visible_outputs
    mutates = cls.MUTATES or cls.mutates is not Operator.mutates
    return "_A" if is_one and not mutates and (cls.INPUTS or cls.VARIADIC) and not _only_key(cls) else "Any"


def _only_key(cls: type[Operator]) -> bool:
    return cls.DRAWS and cls.INPUTS in ((), ("key",))


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
    again = [n for n in names if FUNCTIONS[found[n]] in first]
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
    return "\n".join(lines) + "\n" + _SYMBOLS


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
