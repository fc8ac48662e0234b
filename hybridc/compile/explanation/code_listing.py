"""Generated code as HTML: read by Pygments's lexers. Few kinds of words are marked, as pages hold much code."""

from __future__ import annotations

import functools
import itertools
from html import escape
from typing import Any

from pygments.lexer import RegexLexer
from pygments.lexers.asm import GasLexer, LlvmLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, String, Text


class MlirLexer(RegexLexer):
    """MLIR, and what hybridc prints in its manner: tile programs and plans."""

    name = "MLIR"
    tokens = {  # noqa: RUF012  (Pygments reads it)
        "root": [
            (r"(//|  # ).*", Comment),
            (r'"[^"\n]*"', String),
            (r"@[\w.$-]+", Name.Function),
            (r"\b(?:b?f16|f32|f64|u?i\d+|index|tensor|memref|vector|affine_map|array)\b", Keyword.Type),
            (r"\b(?:tile_program|buffer|axes|inner|parallel|sweep|load|store|map|constant)\b", Keyword),
            (r"\b[a-z]\w*\.[a-z]\w*(?:\.\w+)*", Keyword),
            (r"[%\^#]?[\w$]+|[^\w\n\"@/%\^#]+|.|\n", Text),
        ]
    }


_LEXERS: dict[str, Any] = {"mlir": MlirLexer, "python": PythonLexer, "llvm": LlvmLexer, "assembly": GasLexer}
#: The classes of words, whose style is in the page.
_CLASSES = {Comment: "c", String: "s", Keyword.Type: "t", Keyword: "k", Name.Function: "f", Name.Label: "f"}


def listing(code: str, language: str) -> str:
    """The HTML of a text in a language: ``mlir``, ``python``, ``llvm`` or ``assembly``."""
    tokens = [(_class(kind), text) for kind, text in _LEXERS[language](stripnl=False).get_tokens(code)]
    parts: list[str] = []
    for name, group in itertools.groupby(tokens, lambda token: token[0]):
        text = escape("".join(text for _, text in group), quote=False)
        parts.append(f'<span class="{name}">{text}</span>' if name else text)
    return "".join(parts)


@functools.cache
def _class(kind: Any) -> str:
    """The class of a kind of word, or of the kind that it is one of; "" if it is not marked."""
    return "" if kind is None else _CLASSES.get(kind) or _class(kind.parent)
