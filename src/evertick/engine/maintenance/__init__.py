"""Loops that keep the store in order: reaper, pruner and clock sync."""
