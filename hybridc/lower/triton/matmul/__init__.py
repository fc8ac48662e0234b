"""Products as Triton functions."""
