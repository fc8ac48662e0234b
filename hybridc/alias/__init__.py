"""What ``python -m hybridc run`` puts on Python's path: the package ``mxnet``, which is hybridc."""
