"""Scheduling calls: from `run_after(5, f)` to the row of a job, from every place that can schedule."""
