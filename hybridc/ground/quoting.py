"""Text of a user inside generated code: names of blocks and operators, paths of files.

Whatever such a text holds, it stays the part of a comment or a docstring that it was put into: it ends neither.
"""

from __future__ import annotations

import keyword

from hybridc.errors import VerifyError


def one_line(text: object) -> str:
    """The text as comments and errors name it: line ends and all else that does not print is escaped, as ``\\n``."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def docstring(text: object) -> str:
    """The text between the triple quotes of a docstring, which a reader of the docstring gets as one line."""
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def required_name(name: str) -> str:
    """A function's name that generated Python may define and call; :class:`VerifyError` if it is none."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise VerifyError(f"function @{name!r} cannot be written: Python has no such names")
    return name
