"""Write the parts of the documentation that follow from the code; ``--check`` only compares.

They stand between ``<!-- generated: name -->`` and ``<!-- end -->``; compatibility.md is made as a whole.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import compatibility  # noqa: E402

PART = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
COMPAT = "# COMPAT(mxnet):"


def passes() -> str:
    """The passes of each target in their order, then what each does."""
    from hybridc.compile import pipeline
    from hybridc.compile.targets import TARGETS

    triton = TARGETS["triton"]
    shared = (*pipeline.GRAPH, *pipeline.structured_passes(), *pipeline.KERNELS)
    targets = {
        "llvm": pipeline.llvm(),
        "numpy": pipeline.numpy(),
        "triton": (*triton.kernels(), *triton.plan().passes),
    }
    names = {each.name for each in shared}
    own = {f"and for `{name}`": [p for p in order if p.name not in names] for name, order in targets.items()}
    orders = {"for every target": shared, **own}
    lines = [f"* {what}: {', '.join(each.name for each in order)}" for what, order in orders.items()]
    lines += ["", "| pass | what it does |", "|---|---|"]
    found = {each.name: type(each) for order in orders.values() for each in order}
    lines += [f"| `{name}` | {_summary(cls)} |" for name, cls in found.items()]
    return "\n".join(lines) + "\n"


def _summary(cls: type) -> str:
    """What a pass does: the first line of its docstring, or of its module's."""
    if not cls.__module__.startswith("hybridc."):
        words = re.sub(r"([a-z])([A-Z])", r"\1 \2", cls.__name__)
        return words.capitalize() + "."
    text = cls.__doc__ or ""
    if text.startswith("See the module"):
        text = inspect.getdoc(inspect.getmodule(cls)) or ""
    text = re.sub(r":\w+:`~?[\w.]*?(\w+)`", r"`\1`", text.split("\n\n")[0])
    return text.replace("\n", " ").replace("``", "`").strip()


def compat() -> str:
    """A table of every marked difference from MXNet, by what a user calls."""
    rows = [(_called(p, where), note, str(p.relative_to(ROOT / "hybridc"))) for p, where, note in differences()]
    lines = ["| call | difference | in `hybridc/` |", "|---|---|---|"]
    for call, note, file in sorted(rows, key=lambda row: (row[0].lower(), row[2])):
        lines.append(f"| {call} | {note.replace('|', chr(92) + '|')} | `{file}` |")
    return "\n".join(lines) + "\n"


def differences() -> Iterator[tuple[Path, str, str]]:
    """Every marked difference from MXNet: the file, the name in it of what differs, and how."""
    for path in sorted((ROOT / "hybridc").rglob("*.py")):
        source = path.read_text()
        for where, note in _notes(source) if COMPAT in source else ():
            yield path, where, note


def module_of(path: Path) -> str:
    """The name of the module in a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _called(path: Path, where: str) -> str:
    """What a user calls that a definition in a file is: an operator by its name."""
    from hybridc.dialects.operator import Operator
    from hybridc.dialects.operator_registry import functions

    first, _, rest = where.partition(".")
    found = getattr(importlib.import_module(module_of(path)), first, None) if first else None
    if inspect.isclass(found) and issubclass(found, Operator) and hasattr(found, "NAME"):
        operators = [found] if found.NAME else [cls for cls in functions().values() if issubclass(cls, found)]
        titles = sorted({cls.title() for cls in operators}, key=str.lower)
        return ", ".join(f"`nd.{title}`" for title in titles if len(titles) == 1 or title[0] != "_")
    method = "" if rest.startswith("_") else f".{rest}" * bool(rest)
    return f"`{first.lstrip('_')}{method}`" if first else f"`{path.stem}`"


def _notes(source: str) -> Iterator[tuple[str, str]]:
    """The COMPAT comments of a file with the comment lines that continue them, each after what it stands in."""
    lines = source.splitlines()
    definitions = _definitions(source)
    for number, line in enumerate(lines):
        before, found, text = line.partition(COMPAT)
        if not found or '"' in before:
            continue
        parts = [text.strip()]
        for following in lines[number + 1 :]:
            follows = following.strip()
            if before.strip() or not follows.startswith("#") or COMPAT in follows:
                break
            parts.append(follows.lstrip("# "))
        where = _enclosing(definitions, lines, number)
        yield where, " ".join(parts)


def _definitions(source: str) -> list[tuple[int, int, str]]:
    """First and last line (from 0) and qualified name of every class and function, and of rows of tables of classes."""
    found: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()) if node is tree and name[0].isupper():
                    found.append((child.lineno - 1, (child.end_lineno or child.lineno) - 1, name))
            if not isinstance(child, ast.ClassDef | ast.FunctionDef):
                continue
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)]) - 1
            found.append((first, (child.end_lineno or child.lineno) - 1, prefix + child.name))
            visit(child, f"{prefix}{child.name}.")

    tree = ast.parse(source)
    visit(tree, "")
    return found


def _enclosing(definitions: list[tuple[int, int, str]], lines: list[str], number: int) -> str:
    """The innermost definition around a comment, or the one that follows it directly."""
    after = number
    while after < len(lines) and lines[after].lstrip().startswith("#"):
        after += 1
    following = [name for first, _, name in definitions if first == after]
    around = [name for first, last, name in definitions if first <= number <= last]
    return (following or around[-1:] or [""])[0]


def options() -> str:
    """The settings, from the docstring of the module that reads them."""
    import hybridc.options

    doc = inspect.getdoc(hybridc.options) or ""
    table = [line.replace("``", "`") for line in doc.splitlines() if line.startswith("|")]
    return "\n".join(table) + "\n"


def onnx() -> str:
    """How many operators are written as ONNX in which way, and why the others are not."""
    from hybridc.dialects import operator_registry
    from hybridc.interchange.onnx.writing.model_file import model_of
    from hybridc.interchange.onnx.writing.translate import REASONS, TRANSLATIONS, can_write

    assert model_of, "whose module registers the translations"
    every = {name: cls for name, cls in operator_registry.operators().items() if name.startswith("hybrid.")}
    ours = [cls for name, cls in every.items() if not name.startswith("hybrid._")]
    written = [cls for cls in ours if can_write(cls)]
    own = sum(cls in TRANSLATIONS for cls in written)
    lines = [
        f"Of {len(ours)} operators that users call {len(written)} are written: {own} by a translation of their own, "
        f"{len(written) - own} by what they are.",
        "",
        "| not written | why |",
        "|---|---|",
    ]
    for reason in dict.fromkeys(REASONS.values()):
        names = sorted(cls.NAME.removeprefix("hybrid.") for cls, why in REASONS.items() if why == reason)
        lines.append(f"| {', '.join(f'`{name}`' for name in names)} | {reason} |")
    return "\n".join(lines) + "\n"


PARTS = {"passes": passes, "compat": compat, "options": options, "onnx": onnx}


def main(check: bool) -> int:
    """Write, or compare, the parts of every page."""
    stale: list[str] = []
    pages = {compatibility.PAGE: compatibility.page()}
    for path in [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md"), *pages})]:
        old = path.read_text() if path.exists() else ""
        new = pages.get(path) or PART.sub(lambda m: f"{m[1]}{PARTS[m['name']]()}{m[3]}", old)
        if new == old:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.write_text(new)
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run python docs/generate.py", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main("--check" in sys.argv[1:]))
