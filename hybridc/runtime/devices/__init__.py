"""Devices of the GPU target: memory, streams and launches on GPUs, and on the interpreter that simulates one."""
