"""The rules for ONNX's operators, by family; importing the package registers all."""

from hybridc.interchange.onnx.reading.operators import (
    cast_rules,
    element_rules,
    graph_rules,
    images,
    index_rules,
    layer_rules,
    move_rules,
    quantized_rules,
    recurrent_rules,
    reduction_rules,
    sampling_rules,
    sequence_rules,
    sorting_rules,
    spectrum_rules,
    text_rules,
)

__all__ = [
    "cast_rules",
    "element_rules",
    "graph_rules",
    "images",
    "index_rules",
    "layer_rules",
    "move_rules",
    "quantized_rules",
    "recurrent_rules",
    "reduction_rules",
    "sampling_rules",
    "sequence_rules",
    "sorting_rules",
    "spectrum_rules",
    "text_rules",
]
