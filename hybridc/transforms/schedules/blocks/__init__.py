"""Schedules for machines whose programs work on whole tiles."""
