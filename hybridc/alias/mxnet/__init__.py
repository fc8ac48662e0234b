"""``import mxnet`` in programs that ``python -m hybridc run`` runs: hybridc, under MXNet's name and version.

Modules below it, such as ``mxnet.gluon``, are hybridc's own: ``mxnet.nd is hybridc.nd``.
"""

from __future__ import annotations

import sys
from multiprocessing import pool as pool  # as MXNet does: Sockeye relies on multiprocessing.pool
from pathlib import Path
from typing import Any

try:
    import hybridc
except ModuleNotFoundError:  # a program elsewhere, run by a hybridc that is not installed
    sys.path.append(str(Path(__file__).resolve().parents[3]))
    import hybridc

from hybridc.alias import array_names, numpy_names, python_names
from hybridc.ground import mxnet_version as __version__

__all__ = ["__version__"]

python_names.add()
numpy_names.add()
array_names.add()


def __getattr__(name: str) -> Any:
    return getattr(hybridc, name)


def __dir__() -> list[str]:
    return dir(hybridc)
