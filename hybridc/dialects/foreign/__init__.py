"""Operators that are registered as in NNVM."""
