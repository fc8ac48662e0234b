"""Arrays with elements: NDArray, operators applied to them at once, and the tape."""
