"""Operators for images and for boxes in images."""
