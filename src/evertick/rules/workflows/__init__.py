"""Workflows: the code of a run and its journal. Pure: no clock, no store."""
