"""Operators on integers that stand for real numbers."""
