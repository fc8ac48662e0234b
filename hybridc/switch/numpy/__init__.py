"""The portable target: readable Python that runs NumPy."""
