"""Kernels as loops over memory."""
