"""Passes on the graph of operators."""
