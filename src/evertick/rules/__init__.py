"""Rules: decisions about what happens and when. Pure functions over frozen values."""
