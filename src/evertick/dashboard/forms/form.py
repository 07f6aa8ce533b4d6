"""What was typed into a form, and what is wrong with it."""

from collections.abc import Mapping

from evertick.base.errors import Unavailable


def reason_of(error: Exception) -> str:
    """What an error says of what was typed.

    Raises the error again if it is an outage of the database: nothing that was typed is wrong then, and its words are
    for those who run the server, such as the path of a file.
    """
    if isinstance(error, Unavailable) and not getattr(error, "of_one_row", False):
        raise error
    return str(error)


class Form:
    """The fields of a form, and what is wrong with them."""

    def __init__(self, pairs: list[tuple[str, str]] | None = None) -> None:
        self.pairs = pairs or []
        self.errors: dict[str, str] = {}
        """What is wrong, by field; under `""` what is about the whole form."""

    def __getitem__(self, name: str) -> str:
        """What was typed into a field; nothing if it is not there."""
        return next((value for key, value in self.pairs if key == name), "").strip()

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for key, value in self.pairs if key == name]

    def given(self, name: str) -> str | None:
        """What was typed into a field; None for nothing."""
        return self[name] or None

    def fail(self, name: str, why: str) -> None:
        """Something is wrong with a field; the first complaint stays."""
        self.errors.setdefault(name, why)

    def error(self, name: str) -> str | None:
        """What is wrong with a field."""
        return self.errors.get(name)

    def field_of(self, error: Exception, fields: Mapping[str, str], otherwise: str = "") -> None:
        """Put an error beside the field that its message begins with or names; `fields` maps words to fields.

        Raises an outage of the database again, as `reason_of` does.
        """
        words = reason_of(error)
        name = next((field for word, field in fields.items() if word in words[:120]), otherwise)
        self.fail(name, words)
