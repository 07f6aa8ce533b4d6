"""A small shop: orders come in over HTTP, and customers are reminded of those that they have not paid."""
