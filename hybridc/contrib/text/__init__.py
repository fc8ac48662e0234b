"""``mx.contrib.text``: vocabularies, and vectors of words from files."""

from __future__ import annotations

from hybridc.contrib.text import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
