"""How text from outside is quoted in a message."""


def shown(text: object, limit: int = 60) -> str:
    """The text quoted for a message, control characters escaped, cut when long."""
    if not isinstance(text, str):
        return repr(text)[:limit]
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}... ({len(text)} characters)"
