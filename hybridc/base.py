"""``mx.base``: names that MXNet keeps there."""

from __future__ import annotations

import numpy as np

from hybridc.errors import MXNetError, NotImplementedForSymbol

__all__ = ["MXNetError", "NotImplementedForSymbol", "integer_types", "mx_real_t", "numeric_types", "string_types"]

mx_real_t = np.float32
string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
