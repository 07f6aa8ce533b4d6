"""A shop on Django. Orders are shipped by jobs that are scheduled in the transaction of the order."""
