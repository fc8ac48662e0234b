"""``mx.np``: arrays with NumPy's semantics, float32 by default, which autograd records and Gluon compiles.

The functions apply the operators of ``mx.nd`` to arrays of :class:`ndarray` and to symbols of such arrays; what they
add are NumPy's rules for dtypes and shapes. Names, arguments and defaults are MXNet 1.9.1's.
"""

# ruff: noqa: F403

from __future__ import annotations

from typing import Any

from hybridc.array.numpy_array import as_numpy as as_numpy
from hybridc.array.numpy_array import ndarray as ndarray
from hybridc.ground.absent import absent as _absent
from hybridc.np import linalg as linalg
from hybridc.np import methods as _methods
from hybridc.np import random as random
from hybridc.np.by_element import *
from hybridc.np.constants import *
from hybridc.np.derived.editing import *
from hybridc.np.derived.einsum_paths import *
from hybridc.np.derived.grids import *
from hybridc.np.derived.statistics_of import *
from hybridc.np.making import *
from hybridc.np.memory_facts import *
from hybridc.np.numpy_fallback import *
from hybridc.np.protocol import called_as_ufunc as called_as_ufunc
from hybridc.np.protocol import called_by_numpy as called_by_numpy
from hybridc.np.reducing import *
from hybridc.np.selection import *
from hybridc.np.shaping import *
from hybridc.np.sums_of_products import *

_methods.install()


def __getattr__(name: str) -> Any:
    raise _absent("mx.np", name, "function", __dir__())


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_"))
