"""Makes seeds.npz: what MXNet 1.9.1 gives for the tutorials' code in ``tests/seeds``, with fixed inputs.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_seeds.py

Entries are ``<case>/in/<name>`` (inputs and weights) and ``<case>/out/<name>``; the cases are in
``seed_cases.py``.
"""

import pathlib
import sys
import zlib

import mxnet as mx  # noqa: TID251
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import seed_cases

OUT = {}


def fixed(case):
    """Values from a seed of the input's own, so that a new input changes no other."""

    def values(name, shape, low=-1, high=1):
        key = f"{case}/in/{name}"
        random = np.random.RandomState(zlib.crc32(key.encode()))
        OUT[key] = random.uniform(low, high, shape).astype("float32")
        return mx.nd.array(OUT[key])

    return values


for name, function in seed_cases.CASES.items():
    hybrid = name not in seed_cases.EAGER_ONLY
    results = function(mx, lambda seed: seed_cases.load_seed(seed, "mxnet"), fixed(name), hybrid)
    OUT.update({f"{name}/out/{key}": seed_cases.plain(value) for key, value in results.items()})

np.savez_compressed(pathlib.Path(__file__).parent / "seeds.npz", **OUT)
