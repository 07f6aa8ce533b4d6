"""Compiles a spec and finds its times: days, times of day, steps, zones, exclusions."""
