"""`app.bind`: jobs and schedules in the transaction of a connection of the user's."""
