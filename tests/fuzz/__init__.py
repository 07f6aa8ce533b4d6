"""Fuzzing: scripts that throw arbitrary bytes at the parsers."""
