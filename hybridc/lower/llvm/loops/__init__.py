"""Kernels to loops over memory."""
