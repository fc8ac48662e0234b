"""Passes that move views into the loops around them: reads and writes of parts, in any order."""
