"""Progress bars of loops over batches: tqdm's, on a terminal, if it is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


def progress(batches: Iterable[Any], title: str) -> Iterable[Any]:
    """The batches, with a bar on the standard error where that is a terminal and tqdm is installed."""
    stream: Any = sys.stderr
    if stream is None or not stream.isatty():
        return batches
    try:
        from tqdm import tqdm
    except ImportError:
        return batches
    total = len(batches) if hasattr(batches, "__len__") else None  # pyright: ignore[reportArgumentType]
    return tqdm(batches, desc=title, total=total, leave=False)
