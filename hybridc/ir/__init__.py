"""Kernels, loop nests, tile programs and plans: data structures and analyses; no passes."""
