"""Tokens of the HTTP API, saved views, and the audit log."""
