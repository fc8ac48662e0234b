"""What is in the files of arrays in `files/`: NumPy data from which MXNet and hybridc each make them."""

from __future__ import annotations

import numpy as np

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")


def values(shape, dtype, seed):
    """Fixed random values; whole numbers where the type has no others."""
    rng = np.random.RandomState(seed)
    if dtype == "bool":
        return rng.randint(0, 2, shape).astype(dtype)
    return rng.uniform(0 if dtype == "uint8" else -9, 9, shape).astype(dtype)


def ranks():
    """Arrays of one to five dimensions."""
    return [values((2, 3, 1, 2, 2)[:rank], "float32", rank) for rank in range(1, 6)]


# name → a list, or a dict by name; what MXNet keeps only under np_shape is in NUMPY_SHAPES
CASES = {
    "dtypes": {dtype: values((2, 3), dtype, i) for i, dtype in enumerate(DTYPES)},
    "list": ranks(),
    "names": {"arg:fc_weight": values((2, 2), "float32", 7), "größe": values((1,), "float64", 8), "": ranks()[0]},
    "empty": [],
}
NUMPY_SHAPES = {
    "scalars": {dtype: values((), dtype, i) for i, dtype in enumerate(DTYPES)},
    "no_elements": [values(shape, "float32", 0) for shape in [(0,), (0, 3), (2, 0, 4), (3, 2)]],
}
# Written as sparse arrays of this kind.
SPARSE = {
    "row_sparse": np.array([[0, 0], [1, 2], [0, 0], [3, 0]], "float32"),
    "csr": np.array([[0, 0, 5], [1, 0, 2], [0, 0, 0]], "float64"),
}
