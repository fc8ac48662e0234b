"""Kernels as data, the functions that they print as, and their tiles."""
