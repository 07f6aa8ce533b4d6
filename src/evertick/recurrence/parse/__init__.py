"""Parsers from text to `spec`: one module for each standard, and the fields, durations and dates that they share."""
