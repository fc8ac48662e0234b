"""Benchmarks of the GPU target; what needs no GPU runs anywhere."""
