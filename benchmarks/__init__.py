"""Benchmarks: programs that print figures, physical limits and ratios."""
