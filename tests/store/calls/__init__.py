"""Calls that are remembered by their idempotency keys."""
