"""Real processes killed for real: nothing lost, nothing doubled."""
