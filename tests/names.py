"""Names in the compiler that do not say what a variable or field is: ``python -m tests.names`` prints where they are.

``VAGUE`` are the names. A value of the compiler is called by what it is instead: strides, operands, a schedule.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests import house

VAGUE = frozenset(
    {"found", "made", "given", "number", "each", "there", "held", "taken", "again", "shown", "here", "turned"}
)


def bindings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names of variables, parameters, fields and properties that a module binds, and the lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, node.lineno
            case ast.MatchMapping(rest=str(name)):
                yield name, node.lineno
            case ast.FunctionDef(name=name) if _is_property(node):
                yield name, node.lineno
            case _:
                pass


def _is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).rpartition(".")[-1].endswith("property") for decorator in node.decorator_list)


def vague(known: Mapping[str, Path]) -> dict[str, list[str]]:
    """For each folder of the compiler the vague names that its files bind, and where."""
    folders: dict[str, list[str]] = {}
    for module, path in known.items():
        if module.startswith(tuple(f"hybridc.{folder}." for folder in house.COMPILER)):
            folder = ".".join(path.relative_to(house.PACKAGE).parent.parts)
            places = [(line, name) for name, line in bindings(house.parsed(path)[1]) if name in VAGUE]
            folders.setdefault(folder, []).extend(f"{module}, line {line}: {name}" for line, name in sorted(places))
    return folders


def main() -> None:
    """Print where the vague names are, and how many there are of each and in each folder."""
    folders = vague(house.modules())
    places = [place for listed in folders.values() for place in listed]
    print("\n".join(places))
    for title, count in [*Counter(place.rpartition(" ")[-1] for place in places).items(), ("all", len(places))]:
        print(f"{title:34} {count:7}")
    for folder, listed in folders.items():
        print(f"{folder:34} {len(listed):7}")


if __name__ == "__main__":
    main()
