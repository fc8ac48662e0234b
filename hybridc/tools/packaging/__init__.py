"""What builds the package; pip imports it without the rest of hybridc."""
