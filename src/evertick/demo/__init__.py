"""The demonstration: one week of a small shop on a simulated clock. `evertick dev --demo` starts it."""
