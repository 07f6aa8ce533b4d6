"""Specs in words: `describe` writes them, `parser` reads them, `meaning` compares, `phrases` has what both share."""
