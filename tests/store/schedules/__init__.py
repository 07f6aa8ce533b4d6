"""Schedules, their open occurrences, and the plans of their statements."""
