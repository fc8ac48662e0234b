"""Traces as ONNX graphs: :mod:`.model_file` is the way in, :mod:`.translate` finds how an operator is written."""
