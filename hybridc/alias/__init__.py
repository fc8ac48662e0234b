"""The folder that ``python -m hybridc run`` adds to Python's module search path: it holds the package ``mxnet``."""
