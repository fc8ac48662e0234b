"""Escaping of users' text in generated code: names of blocks and operators, file paths.

Such a text can end neither the comment nor the docstring that it is in.
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
    """The text for a docstring between triple quotes, escaped to one line."""
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def required_name(name: str) -> str:
    """A function name that generated Python may define and call; :class:`VerifyError` if it is no identifier."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise VerifyError(f"function @{name!r} cannot be printed: its name must be a Python identifier, no keyword")
    return name
