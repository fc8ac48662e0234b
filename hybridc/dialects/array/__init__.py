"""Operators that make, move, pick and order elements."""
