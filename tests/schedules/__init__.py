"""Schedules on the real engine and store: Temporal's stories, and what an evaluator must never get wrong."""
