"""Sparse arrays: their storage, and what operators compute on it."""
