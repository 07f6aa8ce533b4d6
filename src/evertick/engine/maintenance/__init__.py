"""Loops that maintain the store: reaper, pruner and clock sync."""
