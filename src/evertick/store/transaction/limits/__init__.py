"""Limits over SQL: of tenants, of pools and of keys."""
