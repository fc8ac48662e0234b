"""Matmul: register tiles, dot products, BLAS, plain loops, and the choice among them."""
