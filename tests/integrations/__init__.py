"""Evertick inside web frameworks, Django, pytest and the standard library's logging."""
