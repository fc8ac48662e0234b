"""Schedules: from loop nests to tile programs, for each kind of machine."""
