"""Python source of Triton kernels, written line by line."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Generator
from contextlib import contextmanager

from hybridc.ground.quoting import docstring

# Names that generated source may not give away: what it calls itself.
_RESERVED = frozenset({"tl", "triton", *keyword.kwlist, *dir(builtins)})
_INDENT = "    "


class SourceWriter:
    """Lines of source, with fresh names; and functions of their own that the lines call (:meth:`helper`)."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}
        self._depth = 0
        self._used: dict[str, int] = dict.fromkeys(_RESERVED, 0)

    def line(self, text: str) -> None:
        """Write a line at the depth at hand; an empty one has no indentation."""
        self.lines.append(_INDENT * self._depth + text if text else "")

    def name(self, hint: str) -> str:
        """A name that is not taken: the hint, or the hint and a number."""
        hint = re.sub(r"\W", "_", hint) or "value"
        hint = hint if hint.isidentifier() else f"_{hint}"
        if hint not in self._used:
            self._used[hint] = 0
            return hint
        self._used[hint] += 1
        return self.name(f"{hint}_{self._used[hint]}")

    def let(self, hint: str, expression: str) -> str:
        """Write an assignment to a fresh name, and give the name."""
        name = self.name(hint)
        self.line(f"{name} = {expression}")
        return name

    @contextmanager
    def indented(self, levels: int = 1) -> Generator[None]:
        """A context whose lines are indented."""
        self._depth += levels
        yield
        self._depth -= levels

    def helper(self, name: str, source: str) -> str:
        """Have a function before the kernel, once; its name. ``source`` is all of it, with its decorator."""
        self._used.setdefault(name, 0)
        self.helpers.setdefault(name, source)
        return name

    def module(self, about: str) -> str:
        """The source of a module: what it is about, imports, the helpers, and the lines."""
        head = [f'"""{docstring(about)}"""', "", "import triton", "import triton.language as tl", "", ""]
        helpers = [f"{source.strip()}\n\n" for source in self.helpers.values()]
        return "\n".join([*head, *helpers, *self.lines, ""])
