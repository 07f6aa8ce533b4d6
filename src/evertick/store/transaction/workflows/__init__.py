"""The contract `Workflows` over SQL."""
