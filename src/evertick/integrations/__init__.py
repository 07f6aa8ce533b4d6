"""Integrations with web frameworks, Django, logging and OpenTelemetry; a module for each."""
