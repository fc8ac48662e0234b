"""Libraries of NVIDIA's: those of PyTorch or CuPy, those in packages of NVIDIA's, or those of CUDA itself."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any


def loaded(names: Sequence[str], functions: Iterable[str]) -> Any:
    """The first library of these file names that has these functions; None if there is none.

    One that this process has loaded already is found by its name.
    """
    for name in (*names, *_packaged(names)):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if all(hasattr(library, function) for function in functions):
            return library
    return None


def _packaged(names: Sequence[str]) -> Iterator[str]:
    """Paths of libraries in NVIDIA's packages."""
    spec = importlib.util.find_spec("nvidia")
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        for name in names:
            yield from map(str, Path(folder).glob(f"*/lib/{name}"))
