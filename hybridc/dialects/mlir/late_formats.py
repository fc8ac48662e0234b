"""xDSL's assembly formats, prepared when an operation is first parsed or printed, which a compilation never does.

xDSL prepares those of all operations when their dialects are imported, which takes about 30 ms.
"""

from __future__ import annotations

from typing import Any

from xdsl.irdl import OpDef
from xdsl.irdl.declarative_assembly_format import FormatProgram

from hybridc.ground.cached import cached_property

_from_str = FormatProgram.from_str


class _LateFormat:
    """Stands for the format of an operation's definition."""

    def __init__(self, text: str, definition: OpDef) -> None:
        self._given = (text, definition)

    @cached_property
    def _program(self) -> FormatProgram:
        return _from_str(*self._given)

    def parse(self, *args: Any) -> Any:
        """As :meth:`FormatProgram.parse`."""
        return self._program.parse(*args)

    def print(self, *args: Any) -> None:
        """As :meth:`FormatProgram.print`."""
        self._program.print(*args)


def install() -> None:
    """Let definitions from here on have formats of this kind."""
    setattr(FormatProgram, "from_str", staticmethod(_LateFormat))  # noqa: B010  (pyright: it is another type)
