"""Measurements: eager against hybridized."""
