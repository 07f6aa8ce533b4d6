"""A day of the shop in examples/shop: orders under load, a killed worker, a restarted database, a deploy."""
