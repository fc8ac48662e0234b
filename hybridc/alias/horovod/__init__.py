"""``import horovod.mxnet as hvd`` in programs that ``python -m hybridc run`` runs: :mod:`hybridc.horovod`.

Horovod for other libraries is not here.
"""

from __future__ import annotations

from importlib import import_module

import_module("mxnet")  # finds hybridc, wherever it is, which makes ``horovod.mxnet`` known

#: The version whose interface this is.
__version__ = "0.28.1"
__all__ = ["__version__"]
