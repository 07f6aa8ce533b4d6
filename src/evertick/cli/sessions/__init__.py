"""Sessions: what commands work on, a database or a server."""
