"""Documents and their indexes."""
