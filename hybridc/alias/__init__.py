"""The folder that ``python -m hybridc run`` adds to Python's module search path.

It holds the packages ``mxnet`` and ``horovod``.
"""
