"""ONNX files read as blocks: the file becomes data, and a walk over its nodes applies one rule for each."""
