"""Code generation: loops to LLVM IR as text, and that to machine code."""
