"""Makes `files/*.params`: files of arrays as MXNet 1.9.1 writes them, and older ones that it reads.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from file_cases import CASES, NUMPY_SHAPES, SPARSE

folder = Path(__file__).parent / "files"


def main():
    folder.mkdir(exist_ok=True)
    for name, data in CASES.items():
        mx.nd.save(str(folder / f"{name}.params"), mapped(mx.nd.array, data))
    with mx.util.np_shape(True):
        for name, data in NUMPY_SHAPES.items():
            made = mapped(lambda x, dtype: mx.np.array(x, dtype=dtype).as_nd_ndarray(), data)
            mx.nd.save(str(folder / f"{name}.params"), made)
    sparse = {kind: mx.nd.array(x, dtype=x.dtype).tostype(kind) for kind, x in SPARSE.items()}
    sparse["zeros"] = mx.nd.sparse.zeros("row_sparse", (2, 3))
    mx.nd.save(str(folder / "sparse.params"), sparse)
    for version in ("v0", "v1"):
        for name in ("list", "names"):
            old(folder / f"{name}_{version}.params", CASES[name], version)


def mapped(make, data):
    """Every array of a list or dict made into MXNet's."""
    if isinstance(data, dict):
        return {name: make(x, dtype=x.dtype) for name, x in data.items()}
    return [make(x, dtype=x.dtype) for x in data]


def old(path, data, version):
    """A file as MXNet 0.x wrote it, which MXNet 1.9.1 must read with equal values."""
    arrays = list(data.values()) if isinstance(data, dict) else data
    names = [name.encode() for name in data] if isinstance(data, dict) else []
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for x in arrays:
        if version == "v0":
            parts.append(struct.pack(f"<I{x.ndim}I", x.ndim, *x.shape))
        else:
            parts.append(struct.pack(f"<Ii{x.ndim}q", 0xF993FAC8, x.ndim, *x.shape))
        flag = {"float32": 0, "float64": 1}[x.dtype.name]
        parts += [struct.pack("<iii", 2, 3, flag), x.tobytes()]  # saved on the fourth GPU
    parts.append(struct.pack("<Q", len(names)))
    parts += [struct.pack("<Q", len(name)) + name for name in names]
    path.write_bytes(b"".join(parts))
    read = mx.nd.load(str(path))
    for x, y in zip(arrays, read.values() if names else read):
        assert x.dtype == y.dtype
        assert np.array_equal(x, y.asnumpy())


if __name__ == "__main__":
    main()
    print(sum(f.stat().st_size for f in folder.glob("*.params")), "bytes")
