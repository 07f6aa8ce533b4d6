"""`evertick gateway`: the gateway's own process, and checks of any gateway."""
