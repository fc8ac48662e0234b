"""The native CPU target: kernels as loops, their mathematics written out, LLVM's dialect, machine code."""
