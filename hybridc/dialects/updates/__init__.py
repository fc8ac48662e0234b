"""Updates of weights from gradients: the formulas of optimizers, and MXNet's operators of them."""
