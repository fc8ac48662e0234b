"""How a Trainer sums gradients and updates parameters: over its devices, by a store, or over the ranks of a program."""
