"""The translations of operators that ONNX has, by family; importing this package registers them."""
