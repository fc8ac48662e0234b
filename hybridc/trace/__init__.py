"""From a forward function to a graph."""
