"""``mx.base``: names that MXNet keeps there."""

from __future__ import annotations

import os

import numpy as np

from hybridc.errors import MXNetError, NotImplementedForSymbol

__all__ = [
    "MXNetError",
    "NotImplementedForSymbol",
    "data_dir",
    "integer_types",
    "mx_real_t",
    "numeric_types",
    "string_types",
]

mx_real_t = np.float32
string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)


def data_dir() -> str:
    """The folder of data sets and models: ``MXNET_HOME``, or ``.mxnet`` in the user's own."""
    return os.environ.get("MXNET_HOME", os.path.join(os.path.expanduser("~"), ".mxnet"))
