"""Handwritten kernels of built-in operators."""
