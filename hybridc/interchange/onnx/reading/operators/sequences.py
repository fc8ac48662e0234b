"""The rules of sequences."""
