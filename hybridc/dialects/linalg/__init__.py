"""Operators of linear algebra: products, triangles, factorizations, equations."""
