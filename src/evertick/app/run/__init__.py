"""The state of one run of a function: its limits, its log, its occurrence."""
