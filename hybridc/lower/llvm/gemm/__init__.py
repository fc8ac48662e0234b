"""Products of matrices: tiles in registers, dot products, BLAS, and the choice among them."""
