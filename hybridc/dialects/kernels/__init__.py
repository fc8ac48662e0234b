"""The kernels of built-in operators that are written by hand."""
