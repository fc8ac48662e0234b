"""The rules of steps."""
