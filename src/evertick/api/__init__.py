"""Schemas of what Evertick returns about jobs and schedules.

Each field has one definition, which is used in Python and in JSON.
"""
