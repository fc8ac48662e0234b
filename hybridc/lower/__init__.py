"""From kernels to targets."""
