"""The names in double backquotes in the class docstrings of the package, and what they may name.

A name there is that of a member of the class or of a base, of a parameter of their methods, a string in their bodies, a
name of the module, an operator, another class, an environment variable, one of Python's (built-in functions,
``__x__``), or a dotted name that exists. A name in quotation marks is a string somewhere in the package. Calls and
formulas are not checked; nor are the variables of formulas, which are names in a formula of the same docstring, or one
letter with or without digits. ``APART`` are the exceptions.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import importlib
import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType

import hybridc
from hybridc.dialects import operator_registry
from hybridc.options import Options
from tests import house

# By the reason: names that are right, though nothing of the package is called so. An entry is "Class: name".
APART: dict[str, set[str]] = {
    "what is missing, as the docstring says": {"ArgSpec: inspect.getargspec"},
    "a name in an example": {"CustomOpError: MyOp.forward", "Interchange: _contrib_quadratic", "Record: record.field"},
    "a structure or function in C": {
        *("LaunchConfig: CUlaunchConfig", "LaunchConfig: cuLaunchKernelEx", "GpuAttribute: CUdevice_attribute"),
        *("UniqueId: ncclUniqueId", "Tensors: ShimTensors", "Compute: ShimCompute"),
    },
    "a name in Triton source, written or generated": {
        *("TritonKernel: triton", "TritonKernel: tl", "TritonKernel: tl.constexpr", "TritonKernel: triton.jit"),
    },
    "an operation of MLIR": {"ExpandShapeOp: tensor.expand_shape"},
    "a variable that the sentence defines": {"LambUpdatePhase1: mean1", "LambUpdatePhase1: var1"},
}

_QUOTED = re.compile(r"(?<!`)``([^`]+)``(?!`)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_FREE = re.compile(r"[A-Za-z]\d*|__\w+__")
_STRING = re.compile(r"""["'](\w+)["']""")
# What the docstrings call the package and its namespaces, as users' programs do.
_SHORT = {"mx": "hybridc", "F": "hybridc.nd", "nn": "hybridc.gluon.nn", "gluon": "hybridc.gluon", "nd": "hybridc.nd"}


@dataclasses.dataclass(frozen=True)
class Package:
    """All classes of the package by name, with the names in the modules of each, and its string constants."""

    classes: dict[str, list[tuple[ast.ClassDef, frozenset[str]]]]
    strings: frozenset[str]

    def names(self, node: ast.ClassDef) -> set[str]:
        """The members of a class and of its bases, the parameters of their methods, and the strings in their bodies."""
        own = {name for part in node.body for name in _names(part)}
        bases = {ast.unparse(base).partition("[")[0].rpartition(".")[-1] for base in node.bases}
        inherited = [c for base in bases for c, _ in self.classes.get(base, ()) if c is not node]
        return own.union(*map(self.names, inherited))

    def unknown(self) -> Iterator[str]:
        """The names that name nothing, as ``"Class: name"``."""
        for title, places in self.classes.items():
            for node, module in places:
                quoted = _QUOTED.findall(ast.get_docstring(node) or "")
                formulas = {name for text in quoted if not _NAME.fullmatch(text) for name in _WORD.findall(text)}
                known = self.names(node) | module | formulas
                for name in quoted:
                    if not (name in known or self._exists(name, known)):
                        yield f"{title}: {name}"

    def _exists(self, name: str, known: set[str]) -> bool:
        string = _STRING.fullmatch(name)
        if string is not None:
            return string[1] in self.strings
        if _is_free(name):
            return True
        first, _, rest = name.partition(".")
        if not rest:
            return name in self.classes or _is_operator(name)
        if first == "self":
            return rest in known
        member = any(rest in self.names(node) for node, _ in self.classes.get(first, ()))
        return member or name in self.strings or _resolves(name)


def package(modules: Mapping[str, Path]) -> Package:
    """What the modules of the package define."""
    classes: dict[str, list[tuple[ast.ClassDef, frozenset[str]]]] = {}
    strings: set[str] = set()
    for path in modules.values():
        tree = house.parsed(path)[1]
        names = frozenset(name for node in tree.body for name in _defined(node))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append((node, names))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
    return Package(classes, frozenset(strings))


def _defined(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a module defines."""
    for part in ast.walk(node) if isinstance(node, ast.If | ast.Try) else [node]:
        match part:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield part.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in part.names)
            case ast.Assign() | ast.AnnAssign():
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
            case _:
                pass


def _names(part: ast.stmt) -> Iterator[str]:
    """The names that a statement in the body of a class gives it."""
    if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
        return
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        yield part.name
    if isinstance(part, ast.FunctionDef):
        yield from (n.arg for n in ast.walk(part.args) if isinstance(n, ast.arg))
    inside = isinstance(part, ast.FunctionDef)
    for node in ast.walk(part):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not inside:
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and inside:
            yield node.attr


def _is_free(name: str) -> bool:
    """Whether a quoted text is no name, or a name that needs no definition."""
    if not _NAME.fullmatch(name) or _FREE.fullmatch(name) or keyword.iskeyword(name):
        return True
    return isinstance(getattr(builtins, name, None), BuiltinFunctionType) or name in _settings()


@functools.cache
def _settings() -> set[str]:
    return {f"HYBRIDC_{field.name.upper()}" for field in dataclasses.fields(Options)}


def _is_operator(name: str) -> bool:
    return operator_registry.has_function(name) or hasattr(hybridc.nd, name) or hasattr(hybridc.sym, name)


def _resolves(name: str) -> bool:
    """Whether a dotted name leads to an attribute of a module of ours, of NumPy's or of Python's.

    Other packages are not imported: tests depend on when Triton is.
    """
    first, _, rest = name.partition(".")
    parts = f"{_SHORT.get(first, first)}.{rest}".split(".")
    if parts[0] not in {"hybridc", "numpy", *sys.stdlib_module_names}:
        return False
    try:
        value = importlib.import_module(parts[0])
        for part in parts[1:]:
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return False
    return True
