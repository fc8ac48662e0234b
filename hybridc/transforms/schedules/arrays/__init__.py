"""Schedules for machines whose statements are functions of whole arrays, and the calls of these."""
