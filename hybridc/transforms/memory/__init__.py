"""Memory planning, and the verifier of plans."""
