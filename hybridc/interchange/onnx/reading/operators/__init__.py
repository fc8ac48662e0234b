"""The rules for ONNX's operators, by family; importing the package registers all."""

from hybridc.interchange.onnx.reading.operators import (
    casts,
    elements,
    graphs,
    indexing,
    layers,
    moves,
    quantization,
    reductions,
    sampling,
    sequences,
    sorting,
    spectra,
    steps,
    texts,
    windows,
)

__all__ = [
    "casts",
    "elements",
    "graphs",
    "indexing",
    "layers",
    "moves",
    "quantization",
    "reductions",
    "sampling",
    "sequences",
    "sorting",
    "spectra",
    "steps",
    "texts",
    "windows",
]
