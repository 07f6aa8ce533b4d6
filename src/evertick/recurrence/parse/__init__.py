"""From text to `spec`: one module for each standard, and the fields, durations and dates they share."""
