"""The app floor: what users write, on both databases."""
