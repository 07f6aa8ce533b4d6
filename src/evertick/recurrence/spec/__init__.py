"""The written rule as data: sources, exclusions, civil dates, and helpers for all packages of `recurrence`."""
