"""Records: the store's rows as every floor sees them. Frozen, and nothing but data."""
