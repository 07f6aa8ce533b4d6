"""Schemas: what Evertick returns about jobs and schedules, each field named once, for Python and for JSON alike."""
