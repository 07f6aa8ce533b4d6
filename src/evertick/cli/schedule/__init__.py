"""`evertick schedule ...`: a file for each command, beside what they share."""
