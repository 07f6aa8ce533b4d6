"""Workflow runs: records, journals and messages."""
