"""The structure of the package as its imports say it: ``python -m tests.house`` prints it as a table.

``LAYERS`` are the folders and files of ``hybridc/`` in the order in which they may import each other: each only itself
and those before it. Imports inside functions count, and those for type checkers.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "hybridc"

LAYERS: tuple[tuple[str, str], ...] = (
    (
        "ground",
        "absent attribute buffers cached collector context debug dtypes errors hooks locks location name nesting "
        "options quoting random registry state store version",
    ),
    ("operators", "dialects"),
    ("arrays", "array autograd"),
    ("traces", "trace"),
    ("analyses", "ir"),
    ("passes", "transforms"),
    ("targets", "lower"),
    ("runtime", "runtime"),
    ("backends", "subgraph"),
    ("compiler", "compile"),
    ("front end: arrays", "operator op nd util base"),
    ("front end: graphs", "symbol executor visualization"),
    ("front end: libraries", "library libinfo"),
    ("front end: training", "initializer lr_scheduler optimizer metric"),
    ("front end: networks", "gluon model"),
    ("tools", "tools test_utils connect"),
    ("the package", ""),
)

# MXNet's own names for two things each: a layer and its operator, an initializer and a parameter, and the like.
LAYERS_AND_OPERATORS = {
    *("Activation", "BatchNorm", "Cast", "Constant", "Dropout", "Embedding", "Flatten", "Identity", "LayerNorm"),
    *("LeakyReLU", "Loss", "Pad", "Parameter", "Stack"),
}
# Folders whose names are MXNet's, or whose files have one idea each that nothing groups better.
MOST_FILES = {"hybridc": 36, "hybridc.ir": 20, "hybridc.dialects": 17}


@dataclass(frozen=True)
class Import:
    """A line of a module that imports another; ``lazy`` inside a function, ``typing`` for type checkers only."""

    source: str
    target: str
    line: int
    lazy: bool
    typing: bool

    def __str__(self) -> str:
        kind = " (inside a function)" if self.lazy else " (for type checkers)" if self.typing else ""
        return f"{self.source}, line {self.line}: imports {self.target}{kind}"


def modules() -> dict[str, Path]:
    """All modules of the package, by name."""
    found: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(known: Mapping[str, Path]) -> list[Import]:
    """All imports among them."""
    return [found for name, path in known.items() for found in _imports(known, name, ast.parse(path.read_text()))]


def _imports(
    known: Mapping[str, Path], source: str, node: ast.AST, lazy: bool = False, typing: bool = False
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and (child.module or "").partition(".")[0] == "hybridc":
            for name in {f"{child.module}.{alias.name}" for alias in child.names}:
                yield Import(source, name if name in known else str(child.module), child.lineno, lazy, typing)
        elif isinstance(child, ast.Import):
            for alias in child.names:
                if alias.name.partition(".")[0] == "hybridc":
                    yield Import(source, alias.name, child.lineno, lazy, typing)
        else:
            inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checked = typing or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            yield from _imports(known, source, child, inside, checked)


def layer(module: str) -> int:
    """The number of a module's layer."""
    first = module.split(".")[1] if "." in module else ""
    return next(i for i, (_, names) in enumerate(LAYERS) if first in (names.split() or [""]))


def upwards(found: list[Import]) -> list[Import]:
    """The imports of a layer that comes later."""
    return [i for i in found if layer(i.target) > layer(i.source)]


def circles(found: list[Import], typing: bool = False) -> list[set[str]]:
    """The groups of modules that import each other, the largest first."""
    graph: dict[str, set[str]] = {}
    for each in found:
        if typing or not each.typing:
            graph.setdefault(each.source, set()).add(each.target)
    reached = {start: _reached(graph, start) for start in graph}
    groups = {frozenset(b for b in ahead if start in reached.get(b, ())) for start, ahead in reached.items()}
    return sorted(({*g} for g in groups if len(g) > 1), key=len, reverse=True)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    work = [start]
    while work:
        for target in graph.get(work.pop(), ()):
            if target not in seen:
                seen.add(target)
                work.append(target)
    return seen


def classes(known: Mapping[str, Path]) -> dict[str, list[str]]:
    """The modules in which a class of each name is."""
    found: dict[str, list[str]] = {}
    for module, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return found


def folders(known: Mapping[str, Path]) -> dict[str, int]:
    """How many files each folder has."""
    return Counter(".".join(path.relative_to(PACKAGE.parent).parent.parts) for path in known.values())


def main() -> None:
    """Print the table."""
    known = modules()
    found = imports(known)
    files = Counter(path.name for path in known.values() if path.name != "__init__.py")
    sizes = folders(known)
    rows = {
        "files": len(known),
        "lines": sum(path.read_text().count("\n") for path in known.values()),
        "folders": len(sizes),
        "files in the largest folder": max(sizes.values()),
        "folders with more than 16 files": sum(n > 16 for n in sizes.values()),
        "imports": len(found),
        "imports inside functions": sum(i.lazy for i in found),
        "imports of a later layer": len(upwards(found)),
        "files in circles": sum(map(len, circles(found))),
        "largest circle": max(map(len, circles(found)), default=0),
        "names of two or more classes": sum(len(w) > 1 for w in classes(known).values()),
        "names of two or more files": sum(n > 1 for n in files.values()),
    }
    for title, number in rows.items():
        print(f"{title:34} {number:7}")


if __name__ == "__main__":
    main()
