"""Write docs/compatibility.md: MXNet 1.9.1's public names, and which of them hybridc has.

A name is supported if hybridc has it with MXNet's parameters in MXNet's order and with MXNet's defaults; it differs if
one of them is another; further parameters do no harm. MXNet's names are those of ``tests/golden/names.json.gz``, which
``tests/golden/make_names.py`` makes of MXNet itself.
"""

from __future__ import annotations

import ast
import functools
import gzip
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "tests/golden/names.json.gz"
PAGE = ROOT / "docs/compatibility.md"

# The parts of the page, and the modules that are in them: the first pattern that fits.
PARTS: tuple[tuple[str, str], ...] = (
    ("sparse", r"(ndarray|symbol)\.sparse"),
    ("numpy", r"(numpy|numpy_extension)(\..*)?"),
    ("gluon.contrib", r"gluon\.contrib(\..*)?"),
    ("gluon", r"gluon(\..*)?"),
    ("nd.contrib and sym.contrib", r"(ndarray|symbol)\.contrib"),
    ("linalg", r"(ndarray|symbol)\.linalg"),
    ("random", r"(ndarray|symbol)\.random|random"),
    ("nd", r"ndarray(\..*)?"),
    ("sym", r"symbol(\..*)?"),
    ("onnx", r"(contrib\.)?onnx(\..*)?"),
    ("contrib", r"contrib(\..*)?"),
    *((name, rf"{name}(\..*)?") for name in ("optimizer", "metric", "initializer", "lr_scheduler", "callback", "io")),
    *((name, rf"{name}(\..*)?") for name in ("recordio", "kvstore", "module", "model", "rnn", "image", "autograd")),
    *((name, rf"{name}(\..*)?") for name in ("profiler", "monitor", "executor", "operator", "test_utils", "util")),
    ("base", r"base"),
    ("mx", r""),
    ("others", r".*"),
)

# What every operator takes, after its own parameters.
OF_EVERY_OPERATOR = ("name", "attr", "out", "ctx")


@dataclass(frozen=True)
class Found:
    """What became of a name of MXNet: ``state`` is supported, differs or absent, ``why`` says in which way."""

    name: str
    state: str
    why: str = ""


@dataclass
class Part:
    """The names of a part of the page."""

    name: str
    found: list[Found] = field(default_factory=list)


@functools.cache
def mxnet_names() -> dict[str, dict[str, Any]]:
    """MXNet's modules, and of each its names with what they are."""
    return json.loads(gzip.decompress(NAMES.read_bytes()))


def parts() -> list[Part]:
    """All names of MXNet, compared."""
    made = {name: Part(name) for name, _ in PARTS}
    for path, names in mxnet_names().items():
        inside = path.removeprefix("mxnet").removeprefix(".")
        part = next(name for name, pattern in PARTS if re.fullmatch(pattern, inside))
        for name, described in names.items():
            if described.get("kind") != "module":
                made[part].found.append(compared(path, name, described))
    return [part for part in made.values() if part.found]


def compared(path: str, name: str, theirs: dict[str, Any]) -> Found:
    """What became of one name of a module of MXNet."""
    full = f"{path.replace('mxnet', 'mx', 1)}.{name}"
    try:
        ours = getattr(importlib.import_module(path.replace("mxnet", "hybridc", 1)), name)
    except (ImportError, AttributeError):
        return Found(full, "absent")
    if is_placeholder(ours):
        return Found(full, "absent", "a class without instances")
    why = "; ".join(differences(theirs, ours))
    return Found(full, "differs" if why else "supported", why)


def is_placeholder(ours: Any) -> bool:
    """Whether it is a class of which there are no instances: it is there for ``isinstance``."""
    return inspect.isclass(ours) and getattr(ours.__new__, "__annotations__", {}).get("return") == "NoReturn"


def differences(theirs: dict[str, Any], ours: Any) -> Iterator[str]:
    """How something of ours differs from MXNet's, in words."""
    if theirs["kind"] == "operator":
        yield from _of_operator(theirs["parameters"], ours)
    elif theirs["kind"] == "function" and callable(ours):
        yield from _of_function(theirs["parameters"], ours)
    elif theirs["kind"] == "class" and inspect.isclass(ours):
        yield from _of_function(theirs["parameters"], ours)
        for method, parameters in theirs["methods"].items():
            if not hasattr(ours, method):
                yield f"no `{method}`"
            elif callable(getattr(ours, method)):
                yield from (f"`{method}`: {each}" for each in _of_function(parameters, getattr(ours, method)))
    elif theirs["kind"] != "value" and not callable(ours):
        yield f"is {type(ours).__name__}"


def _of_operator(theirs: list[list[str | None]], ours: Any) -> Iterator[str]:
    """An operator: arrays first, which MXNet gives no defaults, then attributes."""
    has = _parameters(ours)
    if has is None:
        return
    for name, kind, default in theirs:
        assert name is not None
        assert kind is not None
        if kind.startswith(("NDArray", "Symbol", "SymbolOrNDArray")):
            continue
        if name not in has:
            yield f"no `{name}`"
        elif (
            default is not None
            and not _decides(default, has[name])
            and not _equal(_operator_default(kind, default), has[name].default)
        ):
            yield f"`{name}` is {has[name].default!r}, in MXNet {default}"
    arrays = [
        n
        for n, kind, _ in theirs
        if kind is not None and kind.startswith(("NDArray-or", "SymbolOr")) and "[]" not in kind
    ]
    mine = [p.name for p in has.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if mine[: len(arrays)] != arrays and not any(p.kind is p.VAR_POSITIONAL for p in has.values()):
        yield f"the arrays are {', '.join(mine[: len(arrays)])}, in MXNet {', '.join(map(str, arrays))}"


def _decides(default: str, mine: inspect.Parameter) -> bool:
    """Whether MXNet leaves a default to the operator, of which ours says what it is or that it must be given."""
    required = repr(mine.default) == "<required>"  # there it must be given, too, although it has a default
    return default in ("None", "'None'", "''") or (required and default == "[]")


def _of_function(theirs: list[list[str]] | None, ours: Any) -> Iterator[str]:
    has = _parameters(ours)
    if theirs is None or has is None:
        return
    takes_any = any(p.kind is p.VAR_KEYWORD for p in has.values())
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in has.values())
    mine = [p.name for p in has.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
    place = 0
    for name, kind, default in theirs:
        if kind.startswith("VAR_") or (name in OF_EVERY_OPERATOR and name not in has):
            continue
        if name not in has:
            if not takes_any and not (open_ended and kind != "KEYWORD_ONLY"):
                yield f"no `{name}`"
            continue
        if (
            kind == "POSITIONAL_OR_KEYWORD"
            and not open_ended
            and name not in OF_EVERY_OPERATOR
            and mine[place : place + 1] != [name]
        ):
            yield f"`{name}` is not number {place + 1}"
        place += 1
        if default and "_Null" not in default and not _equal(_function_default(default), has[name].default):
            yield f"`{name}` is {_shown(has[name].default)}, in MXNet {default}"


def _shown(default: Any) -> str:
    return "required" if default is inspect.Parameter.empty else repr(default)


def _parameters(ours: Any) -> dict[str, inspect.Parameter] | None:
    try:
        found = inspect.signature(ours).parameters
    except (ValueError, TypeError):
        return None
    return {name: _of_any_home(p) for name, p in found.items() if name not in ("self", "cls")}


def _of_any_home(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter whose default is no folder of this user."""
    if not isinstance(parameter.default, str):
        return parameter
    return parameter.replace(default=parameter.default.replace(str(Path.home()), "~"))


def _operator_default(kind: str, default: str) -> Any:
    if kind.startswith("boolean"):
        return bool(int(default)) if default.isdigit() else _function_default(default)
    return _function_default(default.strip("'"))


def _function_default(written: str) -> Any:
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return written


# What MXNet writes for "not given".
_NOTHING = (None, (), "None", "<_Null>", "_Null", inspect.Parameter.empty, "")


def _equal(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, list):
        theirs = tuple(theirs)
    if isinstance(ours, list):
        ours = tuple(ours)
    if any(theirs is n or theirs == n for n in _NOTHING):
        return (
            any(ours is n or (isinstance(ours, (tuple, str)) and ours == n) for n in _NOTHING)
            or "null" in repr(ours).lower()
        )
    if isinstance(theirs, tuple) and len(set(theirs)) == 1:  # one number for every axis
        theirs = theirs[0] if not isinstance(ours, tuple) else theirs
    if isinstance(theirs, (bool, int, float)) and isinstance(ours, (bool, int, float)):
        return abs(theirs - ours) <= 1e-6 * abs(theirs)
    if isinstance(theirs, str) and theirs.startswith("<"):  # an object, whose text says nothing
        return type(ours).__name__.lower() in theirs.lower() or ours is None or callable(ours)
    if theirs == ours or str(theirs) == str(ours):
        return True
    name = getattr(ours, "__name__", None) or type(ours).__name__
    return isinstance(theirs, str) and (theirs == name or theirs.split("(")[0].rsplit(".", 1)[-1] == name)


def page() -> str:
    """The page."""
    found = parts()
    lines = [
        "# Names of MXNet 1.9.1",
        "",
        "Written by `python docs/generate.py` from MXNet's own description of itself (`tests/golden/make_names.py`).",
        "*Supported*: with its parameters, order and defaults. *Differs*: something of these is another, which the",
        "tables say. *Absent*: using the name is an error that names a way out. Names of several modules count in",
        "each. Differences of behaviour are in [mxnet_differences.md](mxnet_differences.md).",
        "",
        "| part | names | supported | differs | absent | share there |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(part) for part in found]
    for part in found:
        lines += ["", f"## {part.name}", ""]
        lines += ["| name | state | what differs |", "|---|---|---|"]
        lines += [
            f"| `{f.name}` | {f.state} | {f.why.replace('|', chr(92) + '|') if f.state == 'differs' else ''} |"
            for f in sorted(part.found, key=lambda f: (f.name.lower(), f.name))
        ]
    return "\n".join(lines).rstrip() + "\n"


def _row(part: Part) -> str:
    counts = [sum(f.state == state for f in part.found) for state in ("supported", "differs", "absent")]
    there = (counts[0] + counts[1]) / len(part.found)
    return f"| {part.name} | {len(part.found)} | {' | '.join(map(str, counts))} | {100 * there:.0f} % |"
