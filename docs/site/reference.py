"""The reference: a page for each namespace, and one for each group of operators, made of signatures and docstrings.

``python docs/site/reference.py`` prints how many parameters have no description, ``--list`` names them.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402

import hybridc as mx  # noqa: E402
from hybridc.array.functions import function  # noqa: E402
from hybridc.dialects import operator_registry  # noqa: E402
from hybridc.dialects.operator_attribute import REQUIRED  # noqa: E402

# Namespaces with a page of their own: the title, and the module.
NAMESPACES = (
    ("Arrays", "hybridc.nd"),
    ("Automatic differentiation", "hybridc.autograd"),
    ("Debugging", "hybridc.debug"),
    ("Random numbers", "hybridc.random"),
    ("Gluon", "hybridc.gluon"),
    ("Layers", "hybridc.gluon.nn"),
    ("Further layers", "hybridc.gluon.contrib.nn"),
    ("Recurrent layers", "hybridc.gluon.rnn"),
    ("Losses", "hybridc.gluon.loss"),
    ("Data", "hybridc.gluon.data"),
    ("Transformations of images", "hybridc.gluon.data.vision.transforms"),
    ("Optimizers", "hybridc.optimizer"),
    ("Learning rates", "hybridc.lr_scheduler"),
    ("Initializers", "hybridc.initializer"),
    ("Metrics", "hybridc.metric"),
    ("Iterators", "hybridc.io"),
    ("Images", "hybridc.image"),
    ("Modules", "hybridc.module"),
    ("Symbols", "hybridc.symbol"),
    ("Stores of several devices", "hybridc.kvstore"),
    ("Record files", "hybridc.recordio"),
    ("Monitor", "hybridc.monitor"),
    ("Profiler", "hybridc.profiler"),
    ("Callbacks", "hybridc.callback"),
    ("Custom operators", "hybridc.operator"),
    ("ONNX", "hybridc.onnx"),
    ("Errors", "hybridc.errors"),
    ("Utilities", "hybridc.util"),
)
# Folders of operators, and their titles.
GROUPS = {
    "math": "Mathematics",
    "array": "Arrays",
    "nn": "Neural networks",
    "linalg": "Linear algebra",
    "elements": "Elements",
    "vision": "Images and boxes",
    "sparse": "Sparse arrays",
    "quantized": "Integers for floats",
    "updates": "Updates of optimizers",
    "control": "Control flow",
}
# Methods of Python's protocols are no names that a reader looks for.
_SPECIAL = ("__call__",)
# Blocks override these; they are described where they are defined first.
_FORWARDS, _BASES = ("forward", "hybrid_forward"), ("Block", "HybridBlock")
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*?\.)?(\w+)`")
_SECTION = re.compile(r"^(\w[\w ]*)\n(-{3,})$", re.MULTILINE)
# What the examples of docstrings find without an import; tests/docs/test_docstring_examples.py gives it to them.
IMPORTS = """import numpy as np

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.gluon import nn
"""


@dataclass
class Parameter:
    """A parameter with what is said of it."""

    name: str
    kind: str = ""
    text: str = ""


@dataclass
class Entry:
    """A name of the reference: its call, its text, its parameters, examples of it, what it has inside."""

    title: str
    call: str
    text: str
    parameters: list[Parameter] = field(default_factory=list[Parameter])
    example: str = ""
    members: list[Entry] = field(default_factory=list["Entry"])


# --- docstrings -------------------------------------------------------------------------------------------------------


def markdown(text: str) -> str:
    """A docstring's text as Markdown."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`").strip()


def parsed(doc: str | None) -> tuple[str, list[Parameter]]:
    """The text of a docstring without its examples, and the parameters that its sections describe."""
    text = inspect.cleandoc(doc or "")
    first, *rest = _SECTION.split(text)
    parameters: list[Parameter] = []
    for name, _, body in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if name == "Examples":
            continue
        if name not in ("Parameters", "Attributes"):
            first += f"\n\n**{name}**\n\n{body.strip()}"
            continue
        group: list[Parameter] = []  # those of one line have one description
        for line in body.strip("\n").splitlines():
            if line and not line[0].isspace():
                names, _, kind = line.partition(":")
                group = [Parameter(each.strip().lstrip("*"), kind.strip()) for each in names.split(",")]
                parameters += group
            for each in group if not line or line[0].isspace() else ():
                each.text = f"{each.text} {line.strip()}".strip()
    return markdown(first), parameters


def examples(doc: str | None) -> str:
    """The examples of a docstring: blocks of a session with Python, and what is said between them."""
    _, *rest = _SECTION.split(inspect.cleandoc(doc or ""))
    body = "".join(body for name, body in zip(rest[::3], rest[2::3], strict=True) if name == "Examples")
    parts: list[str] = []
    session = ""
    for part in doctest.DocTestParser().parse(body.strip("\n") + "\n"):
        if isinstance(part, doctest.Example):
            first, *more = part.source.splitlines()
            session += "".join(f"{line}\n" for line in (f">>> {first}", *(f"... {line}" for line in more)))
            session += part.want.replace("<BLANKLINE>", "")
        elif part.strip():
            parts += [f"```pycon\n{session}```"] * bool(session) + [markdown(part)]
            session = ""
        elif part and session:  # an empty line inside the session
            session += part
    return "\n\n".join(parts + [f"```pycon\n{session.rstrip()}\n```"] * bool(session))


def described(text: str, parameters: list[Parameter], given: list[inspect.Parameter]) -> list[Parameter]:
    """The parameters of a call; one that the text names in quotes is described there."""
    known = {p.name: p for p in parameters}
    found: list[Parameter] = []
    for each in given:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and each.name not in known:
            continue
        parameter = known.get(each.name, Parameter(each.name))
        known_kind = "default" in parameter.kind or "required" in parameter.kind
        default = "" if each.default is each.empty or known_kind else f"default `{shown(each.default)}`"
        kind = ", ".join(filter(None, (parameter.kind, default)))
        words = parameter.text or ("see above" if re.search(rf"`[^`]*\b{re.escape(each.name)}\b[^`]*`", text) else "")
        found.append(Parameter(each.name, kind, words))
    return found


def shown(value: Any) -> str:
    """A default as it is written."""
    if value is REQUIRED:
        return "required"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value)) if not inspect.isfunction(value) else value.__name__


# --- entries ----------------------------------------------------------------------------------------------------------


def signature_of(value: Any) -> list[inspect.Parameter]:
    """The parameters of a function or class; none if Python does not know them."""
    with contextlib.suppress(ValueError, TypeError):
        return [p for p in inspect.signature(value).parameters.values() if p.name not in ("self", "cls")]
    return []


def call_of(path: str, parameters: list[inspect.Parameter]) -> str:
    """The call, without annotations."""
    parts: list[str] = []
    for each in parameters:
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty or each.default is REQUIRED else f"={shown(each.default)}"
        parts.append(f"{stars}{each.name}{default}")
    call = f"{path}({', '.join(parts)})"
    return call if len(call) <= 80 else f"{path}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def entry(path: str, value: Any, inside: bool = True) -> Entry:
    """The entry of a function, a class or a constant."""
    if inspect.isclass(value):
        parameters = signature_of(value)
        text, said = parsed(value.__doc__)
        made = vars(value).get("__init__")
        more, of_init = parsed(made.__doc__ if made is not None else None)
        text = "\n\n".join(filter(None, (text, more)))
        inherited = [p for base in reversed(value.__mro__[1:]) for p in parsed(vars(base).get("__doc__"))[1]]
        found = Entry(path.rpartition(".")[2], call_of(path, parameters), text)
        found.parameters = described(text, [*inherited, *said, *of_init], parameters)
        found.example = examples(value.__doc__)
        if inside:
            found.members = list(members(value))
        return found
    if callable(value):
        parameters = signature_of(value)
        text, said = parsed(value.__doc__)
        call, known = call_of(path, parameters), described(text, said, parameters)
        return Entry(path.rpartition(".")[2], call, text, known, examples(value.__doc__))
    return Entry(path.rpartition(".")[2], path, f"`{shown(value)}`")


def members(cls: type) -> Iterator[Entry]:
    """The methods and properties that a class defines itself; a forward is what the class is.

    An override has the descriptions of the methods that it overrides. One without a docstring is what a public base
    says of it: it stands there alone.
    """
    for name, value in vars(cls).items():
        if (name.startswith("_") and name not in _SPECIAL) or (name in _FORWARDS and cls.__name__ not in _BASES):
            continue
        overridden = [base for base in cls.__mro__[1:-1] if getattr(vars(base).get(name), "__doc__", None)]
        if not value.__doc__ and overridden and not overridden[0].__name__.startswith("_"):
            continue
        if isinstance(value, property):
            yield Entry(name, f".{name}", parsed(value.__doc__)[0], example=examples(value.__doc__))
        elif isinstance(value, staticmethod | classmethod) or inspect.isfunction(value):
            inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            parameters = signature_of(inner)
            text, said = parsed(inner.__doc__ or next((vars(base)[name].__doc__ for base in overridden), None))
            inherited = [p for base in reversed(overridden) for p in parsed(vars(base)[name].__doc__)[1]]
            known = described(text, [*inherited, *said], parameters)
            yield Entry(name, call_of(f".{name}", parameters), text, known, examples(inner.__doc__))


def operator_entry(name: str, cls: Any) -> Entry:
    """The entry of an operator, with the examples of its docstring, or one of its samples."""
    made = function(name)
    parameters = signature_of(made)
    text, said = parsed(made.__doc__)
    inputs = {p.name for p in said if p.kind == "NDArray or Symbol"}
    found = Entry(name, call_of(f"mx.nd.{name}", [p for p in parameters if p.name not in ("ctx", "kwargs")]), text)
    hidden = {"out", "name", "ctx", "kwargs"}
    found.parameters = described(text, said, [p for p in parameters if p.name not in hidden])
    for parameter in found.parameters:
        if parameter.name in inputs:
            parameter.kind = "array"
    found.example = examples(made.__doc__) or example(name, cls)
    return found


def example(name: str, cls: Any) -> str:
    """A call of an operator on small arrays, and what it gives; nothing where none is small."""
    for sample in cls.samples():
        if cls.DRAWS or sample.attrs.get("p"):
            return ""
        lines = ["import hybridc as mx", "import numpy as np", ""]
        names: list[str] = []
        scope: dict[str, Any] = {}
        for i, given in enumerate(sample.inputs):
            value = _values(given, sample, i)
            if value.size > 24:
                break
            names.append("xyzuvw"[i] if i < 6 else f"x{i}")
            scope[names[-1]] = mx.nd.array(value, dtype=value.dtype)
            numbers = np.round(value.astype("float64"), 4) if value.dtype.kind == "f" else value
            lines.append(f"{names[-1]} = mx.nd.array({numbers.tolist()}, dtype={value.dtype.name!r})")
        if len(names) < len(sample.inputs):
            continue
        attributes = [f"{key}={_written(value)}" for key, value in sample.attrs.items()]
        call = f"mx.nd.{name}({', '.join([*names, *attributes])})"
        try:
            result = eval(call, {"mx": mx, "np": np, **scope})
            results = result if isinstance(result, list) else [result]
            text = "\n".join(np.array2string(y.asnumpy(), precision=4, suppress_small=True) for y in results)
        except Exception:
            continue
        if len(text) < 600 and len(call) < 100:
            shown_call = f"print({call})" if not isinstance(result, list) else f"for y in {call}:\n    print(y)"
            return "\n".join(["```py", *lines, shown_call, "```", "", "```text", text, "```"])
    return ""


def _values(given: Any, sample: Any, number: int) -> np.ndarray:
    """The input of an example: that of the sample, or numbers that are easily read."""
    if not isinstance(given, tuple):
        return np.asarray(given)
    size = int(np.prod(given, dtype=int))
    steps = np.arange(1 + number, 1 + number + size).reshape(given) / 2
    low, high = sample.low, sample.high
    return (low + (steps * 2 % 7) / 7 * (high - low)).round(2).astype("float32") if size else np.zeros(given, "float32")


def _written(value: Any) -> str:
    return repr(value) if not isinstance(value, np.dtype) else repr(value.name)


# --- pages ------------------------------------------------------------------------------------------------------------


def namespace_entries(module: Any) -> Iterator[tuple[str, Any]]:
    """The public names of a module that are its own, or that it says are."""
    said = getattr(module, "__all__", None)
    for name in dict.fromkeys(said or [n for n in dir(module) if not n.startswith("_")]):
        value = getattr(module, name, None)
        if value is None or inspect.ismodule(value):
            continue
        if said is None and getattr(value, "__module__", "") != module.__name__:
            continue
        yield name, value


def namespaces() -> Iterator[tuple[str, str, str, list[Entry]]]:
    """The file, the title, the introduction and the entries of each page of a namespace."""
    of_operators = set(operator_registry.functions())
    for title, path in NAMESPACES:
        module = importlib.import_module(path)
        short = path.replace("hybridc", "mx", 1)
        found = [
            entry(f"{short}.{name}", value)
            for name, value in namespace_entries(module)
            if not (path == "hybridc.nd" and name in of_operators)
        ]
        intro = parsed(module.__doc__)[0]
        intro = intro if short in intro.partition("\n")[0] else f"`{short}`: {intro}"
        yield f"{path.removeprefix('hybridc.').replace('.', '_')}.md", title, intro, found


def operators() -> Iterator[tuple[str, str, str, list[Entry]]]:
    """The file, the title, the introduction and the entries of each page of operators."""
    groups: dict[str, list[Entry]] = {}
    seen: set[Any] = set()
    for name, cls in sorted(operator_registry.functions().items()):
        if cls in seen or name.startswith("_") or "." in name or cls.NAME.startswith("hybrid._"):
            continue
        if not cls.__module__.startswith("hybridc."):  # a user's
            continue
        seen.add(cls)
        group = cls.__module__.split(".")[2]
        groups.setdefault(group if group in GROUPS else "control", []).append(operator_entry(name, cls))
    for group, title in GROUPS.items():
        intro = f"Operators of `mx.nd`, which are those of `mx.sym` and of `F` in a forward: {title.lower()}."
        yield f"operators_{group}.md", title, intro, groups.get(group, [])


def page(title: str, intro: str, entries: list[Entry]) -> str:
    """The text of a page."""
    lines: list[str] = []
    for each in entries:
        lines += [f"## {each.title}", "", *_body(each, 3)]
    start = [f"Examples that begin with `>>>` come after:\n\n```py\n{IMPORTS}```", ""]
    return "\n".join([f"# {title}", "", intro, "", *(start if "```pycon" in "".join(lines) else ()), *lines])


def _body(each: Entry, level: int) -> list[str]:
    lines = ["```py", each.call, "```", ""]
    if each.text:
        lines += [each.text, ""]
    if each.parameters:
        lines += ["| parameter | kind and default | meaning |", "|---|---|---|"]
        for p in each.parameters:
            cells = [f"`{p.name}`", p.kind, markdown(p.text)]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    if each.example:
        lines += [each.example, ""]
    for member in each.members:
        lines += [f"{'#' * level} {member.title}", "", *_body(member, level + 1)]
    return lines


def pages() -> dict[str, str]:
    """All pages by their files, and the page that lists them."""
    found: dict[str, str] = {}
    index = ["# Reference", "", "Signatures and descriptions are those of the library; examples ran as they stand.", ""]
    for heading, source in (("Operators", operators()), ("Namespaces", namespaces())):
        index += [f"## {heading}", "", "| page | names |", "|---|---|"]
        for file, title, intro, entries in source:
            found[file] = page(title, intro, entries)
            index.append(f"| [{title}]({file}) | {len(entries)} |")
        index.append("")
    found["index.md"] = "\n".join(index)
    return found


def undescribed() -> Iterator[str]:
    """The parameters of which nothing is said, as ``mx.nd.softmax: axis``."""

    def inside(entries: list[Entry]) -> Iterator[str]:
        for each in entries:
            yield from (f"{each.call.partition('(')[0]}: {p.name}" for p in each.parameters if not p.text)
            for member in inside(each.members):
                yield each.call.partition("(")[0] + member

    for source in (operators(), namespaces()):
        for _, _, _, entries in source:
            yield from inside(entries)


if __name__ == "__main__":
    names = list(undescribed())
    if "--list" in sys.argv:
        print("\n".join(names))
    print(f"{len(names)} parameters without a description")
