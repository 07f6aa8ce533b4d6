"""`app.bind`: jobs and schedules in the transaction of the user's own connection."""
