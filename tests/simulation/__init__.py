"""Simulation: the real engine on a deterministic loop, from a seed."""
