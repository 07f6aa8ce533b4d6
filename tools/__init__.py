"""Tools for those who work on Evertick itself."""
