"""Rules: when, and whether. Pure functions over frozen values."""
