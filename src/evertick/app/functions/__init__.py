"""Registered functions: their names, arguments, options and limits."""
