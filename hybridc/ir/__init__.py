"""What kernels, loops, plans and programs are: data and analyses, no passes."""
