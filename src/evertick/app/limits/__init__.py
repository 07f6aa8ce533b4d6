"""What tenants and pools may use."""
