"""PostgreSQL: the store, its connections and its notifications."""
