"""The rules of texts."""
