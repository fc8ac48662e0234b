"""Symbols on arrays: evaluation operator by operator, compiled graphs, and the call of a symbol as a function."""
