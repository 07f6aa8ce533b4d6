"""SQLite: the store, the engine's lock and the poller for changes by other processes."""
