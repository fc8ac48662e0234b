"""Random Gluon networks: data, proposals, checks, and smaller ones of those that fail."""
