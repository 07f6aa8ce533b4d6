"""Tests of the benchmark programs: what they compute, not how fast anything is."""
