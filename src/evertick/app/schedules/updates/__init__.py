"""Updating schedules: one of them, and many at once."""
