"""Attention as Triton functions."""
