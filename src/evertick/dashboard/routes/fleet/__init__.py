"""Pages about what all tenants share: pools, workers, changes, tokens and limits."""
