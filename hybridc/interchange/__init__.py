"""Models that leave for other engines, and models that come from them."""
