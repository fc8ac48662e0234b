"""NVIDIA's cards."""
