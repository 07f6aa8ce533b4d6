"""The floor of words: errors, ids, instants, and the limits of functions."""
