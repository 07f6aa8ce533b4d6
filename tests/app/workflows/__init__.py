"""Workflows as a user writes them, on both databases."""
