"""The code of kernels for machines whose programs work on whole tiles."""
