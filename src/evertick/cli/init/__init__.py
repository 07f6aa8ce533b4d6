"""`evertick init`: a project that runs."""
