"""Computations for the pages of schedules."""
