"""The llvm target: kernels to loops, expanded math, the llvm dialect, machine code."""
