"""Golden programs: what MXNet gives for functions that return dicts of arrays and values, and the comparison with it.

A case is a function of ``mx``; ``NAME.npz`` holds its arrays, ``NAME.json`` its values.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def record(name, cases, *args, **more):
    """Run the cases with ``args`` and write what they give; ``more`` are further entries of the values."""
    arrays, values = {}, {}
    for case, run in cases.items():
        for key, value in run(*args).items():
            if isinstance(value, np.ndarray):
                arrays[f"{case}/{key}"] = value
            else:
                values.setdefault(case, {})[key] = value
    values.update(more)
    np.savez_compressed(HERE / f"{name}.npz", **arrays)
    (HERE / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")
    print(len(arrays), "arrays,", sum(map(len, values.values())), "values")


class Recorded:
    """What was recorded under a name."""

    def __init__(self, name):
        with np.load(HERE / f"{name}.npz", allow_pickle=False) as file:
            self.arrays = {key: file[key] for key in file.files}
        self.values = json.loads((HERE / f"{name}.json").read_text())

    def assert_same(self, case, found, atol=2e-6):
        """Equal values; equal keys, shapes, dtypes and nearly equal elements of arrays."""
        values = json.loads(json.dumps({k: v for k, v in found.items() if not isinstance(v, np.ndarray)}))
        assert values == self.values.get(case, {})
        wanted = {k.partition("/")[2]: v for k, v in self.arrays.items() if k.startswith(f"{case}/")}
        arrays = {k: v for k, v in found.items() if isinstance(v, np.ndarray)}
        assert arrays.keys() == wanted.keys()
        for key, value in arrays.items():
            assert value.shape == wanted[key].shape, key
            assert value.dtype == wanted[key].dtype, key
            np.testing.assert_allclose(value, wanted[key], rtol=2e-5, atol=atol, err_msg=key)
