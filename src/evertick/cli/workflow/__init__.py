"""`evertick workflow`: runs of workflows, started, read, signaled and ended."""
