"""Records that combine data of the rules and the recurrence engine with that of the store."""
