"""The evaluator and all operations on schedules."""
