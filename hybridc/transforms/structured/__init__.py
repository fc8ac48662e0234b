"""Passes that make the structured form and fuse it into kernels."""
