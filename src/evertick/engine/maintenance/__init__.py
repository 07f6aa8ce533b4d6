"""Loops that keep the store in order: reaper, pruner, unblocker and clock sync."""
