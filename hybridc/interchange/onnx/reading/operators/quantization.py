"""The rules of quantization."""
