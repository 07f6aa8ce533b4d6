"""`evertick dev`: the parent that watches, the child that runs, and what they print."""
