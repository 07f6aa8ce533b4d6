"""The parser: converts an English sentence to a spec."""
