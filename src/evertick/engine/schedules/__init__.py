"""The evaluator and everything it does to a schedule."""
