"""Tile programs: the schedule of a kernel as data."""
