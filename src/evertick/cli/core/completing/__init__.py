"""Names that a shell completes, read from the database or the server that the command would use."""
