"""Elementwise operators that came with NumPy's arrays; the first ones are in :mod:`hybridc.dialects.math`."""
