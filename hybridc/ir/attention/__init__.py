"""Attention: which kernels are one, and what its masks hide."""
