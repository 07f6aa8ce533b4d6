"""`evertick serve`: everything that the Python API can do, over HTTP for programs in any language."""
