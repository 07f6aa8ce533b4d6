"""Tests of workflow runs: the loop, replay, steps, and random programs."""
