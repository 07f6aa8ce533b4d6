"""Which schedules a request is about."""

from typing import Any

from pydantic import Field

from evertick.app.bodies import Body, Time


class Choice(Body):
    """Which schedules are meant. Each member narrows the choice."""

    kind: str | None = None
    status: str | None = None
    function: str | None = None
    id_contains: str | None = None
    next_before: Time | None = None
    time_zone: str | None = Field(None, max_length=100)
    health: str | None = Field(None, pattern="^(failing|late|missed)$")

    def where(self) -> dict[str, Any]:
        """The filters that were given."""
        return {name: value for name in Choice.model_fields if (value := getattr(self, name)) is not None}
