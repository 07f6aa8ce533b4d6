"""Benchmarks of the peers, side by side on one machine in one run."""
