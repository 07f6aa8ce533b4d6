"""The transaction over SQL, the same for both databases."""
