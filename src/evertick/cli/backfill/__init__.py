"""`evertick schedule backfill`, and `evertick backfill ...` for those that were started."""
