"""What was typed into a form, and what is wrong with it."""

from collections.abc import Mapping


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
        """Put an error beside the field that its message begins with or names; `fields` maps words to fields."""
        words = str(error)
        name = next((field for word, field in fields.items() if word in words[:120]), otherwise)
        self.fail(name, words)
