"""Loops over memory as LLVM's dialect, its text, and machine code."""
