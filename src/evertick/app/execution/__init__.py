"""Execution: runs registered functions and hands each its context."""
