"""Passes on kernels and the calls of them."""
