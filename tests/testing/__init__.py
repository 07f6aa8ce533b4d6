"""The testing kit, tested."""
