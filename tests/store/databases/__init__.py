"""What one database alone can get wrong: SQLite's files, PostgreSQL's connections, schemas."""
