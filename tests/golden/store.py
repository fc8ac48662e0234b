"""The golden file: one array for each dtype, and a JSON index of slices into them (each case is small)."""

from __future__ import annotations

import json

import numpy as np


class Writer:
    """Collects arrays by dtype; `put` returns the reference that the index keeps."""

    def __init__(self):
        self.index = {}
        self.parts = {}
        self.sizes = {}

    def put(self, value):
        """Store an array (text goes into the reference itself)."""
        value = np.asarray(value)
        if value.dtype.kind in "US":
            return {"text": str(value)}
        kind = value.dtype.name
        start = self.sizes.get(kind, 0)
        self.parts.setdefault(kind, []).append(value.ravel())
        self.sizes[kind] = start + value.size
        return [kind, start, list(value.shape)]

    def save(self, path):
        """Write everything, compressed."""
        text = json.dumps(self.index, separators=(",", ":")).encode()
        arrays = {kind: np.concatenate(parts) for kind, parts in self.parts.items()}
        np.savez_compressed(path, index=np.frombuffer(text, dtype=np.uint8), **arrays)


class Reader:
    """Reads what Writer wrote: `index[name]` and `get(reference)`."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self.arrays = {key: file[key] for key in file.files}
        self.index = json.loads(self.arrays.pop("index").tobytes())

    def get(self, reference):
        """The array (or text) behind a reference."""
        if isinstance(reference, dict):
            return np.asarray(reference["text"])
        kind, start, shape = reference
        return self.arrays[kind][start : start + int(np.prod(shape, dtype=int))].reshape(shape)
