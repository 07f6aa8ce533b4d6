"""`evertick schedule ...`: a file for each command, and what they share."""
