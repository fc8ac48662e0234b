"""Passes that plan memory, and check plans."""
