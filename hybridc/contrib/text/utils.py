"""``mx.contrib.text.utils``: counting tokens."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    """How often each token is in a text: what is between delimiters.

    Parameters
    ----------
    source_str:
        The text.
    token_delim, seq_delim:
        Regular expressions: what is between tokens, and what is between sequences of them.
    to_lower:
        Whether tokens are counted in lower case.
    counter_to_update:
        A Counter to which the counts are added, and which is returned; None makes a new one.
    """
    tokens = (token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token)
    counter: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() if to_lower else token for token in tokens)
    return counter
