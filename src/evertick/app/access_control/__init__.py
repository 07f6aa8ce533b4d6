"""Who may use the HTTP API, and what was changed through it."""
