"""Code generation: loops to the llvm dialect, to LLVM IR, to machine code."""
