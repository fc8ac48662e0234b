"""Where arrays and kernels of the GPU target live: cards, and the interpreter that stands in for one."""
