"""Workers, their leases, and the lock of an engine."""
