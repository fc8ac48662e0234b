"""Matmuls as Triton functions."""
