"""`evertick data ...`: tables and documents."""
