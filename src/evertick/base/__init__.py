"""Base: the words everything else is written in: errors, instants, ids, durations, clocks, chance, JSON values."""
