"""The operators, one family per file, and the IR dialects made of them."""
