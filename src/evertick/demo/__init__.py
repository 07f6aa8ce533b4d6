"""The demonstration: a small shop, and a week of it on a simulated clock. `evertick dev --demo` shows it."""
