"""The parser: an English sentence read into a spec."""
