"""Base types that every other package uses: errors, instants, ids, durations, clocks, random numbers, JSON values."""
