"""Passes, one per file."""
