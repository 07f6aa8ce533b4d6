"""Records: the rows of the store as immutable data, for all layers."""
