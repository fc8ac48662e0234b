"""Passes that make and fuse the structured form."""
