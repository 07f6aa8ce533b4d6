"""Limits of tenants and pools."""
