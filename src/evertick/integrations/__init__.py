"""Integrations: Evertick inside web frameworks, Django, and the standard library's logging; a module for each."""
