"""The code of kernels: which tile programs, or calls of a library, compute them."""
