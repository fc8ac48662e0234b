"""Operators that compute: elementwise functions, reductions, products, random numbers."""
