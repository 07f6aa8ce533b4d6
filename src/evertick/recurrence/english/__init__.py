"""Specs in English: `describe` writes them, `parser` reads them, `meaning` compares them, `phrases` is shared."""
