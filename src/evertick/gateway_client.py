"""The client of the contract `/v1`: what the platform and `evertick gateway check` send to a gateway."""
