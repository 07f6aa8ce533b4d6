"""The shop's tables in versions."""
