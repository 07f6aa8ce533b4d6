"""Text of the user's, made such that every database can keep it."""


def storable(text: str) -> str:
    """`text` with the escapes of what a database refuses: PostgreSQL keeps no NUL, and UTF-8 has no lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
