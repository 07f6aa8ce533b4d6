"""`evertick job ...`."""
