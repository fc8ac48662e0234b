"""What ``hybridize`` does: traces with their guards, compiled graphs by signature, training steps."""
