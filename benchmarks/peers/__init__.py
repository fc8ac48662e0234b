"""The benchmark workloads in other frameworks, measured beside hybridc: ``python benchmarks/peers/run.py``."""
