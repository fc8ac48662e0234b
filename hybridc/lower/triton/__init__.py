"""The GPU target: kernels as readable Triton source."""
