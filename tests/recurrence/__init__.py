"""Recurrence: held against vectors, brute force, other libraries and hostile text."""
