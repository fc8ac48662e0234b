"""Tracing: from a forward function to a graph."""
