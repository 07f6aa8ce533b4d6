"""`evertick serve` and `evertick token`: the HTTP API and who may use it."""
