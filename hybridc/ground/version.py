"""The version of the package, which is a part of the keys of what is kept on the disk."""

__version__ = "0.1.0"
