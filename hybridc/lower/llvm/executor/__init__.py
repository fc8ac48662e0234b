"""The generator of the native runtime: what it runs tables of steps with, as LLVM IR."""
