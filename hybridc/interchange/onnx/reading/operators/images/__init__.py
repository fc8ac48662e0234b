"""The rules for images: windows of them, other sizes, elements at places that arrays say."""

from hybridc.interchange.onnx.reading.operators.images import decoding_rules, grid_rules, resizing_rules, window_rules

__all__ = ["decoding_rules", "grid_rules", "resizing_rules", "window_rules"]
