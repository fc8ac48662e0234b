"""The version of the package, a part of cache keys."""

__version__ = "0.1.0"
