"""The llvm target: kernels to loops, LLVM IR as text, machine code."""
