"""What runs when a network is called."""
