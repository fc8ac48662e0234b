"""Passes on kernels and their calls."""
