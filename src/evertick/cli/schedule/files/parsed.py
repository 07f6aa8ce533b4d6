"""A file as it was read: its value, and the line of each part of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from evertick.base.errors import Misuse

SCHEDULES: Final = "schedules"
CRONS: Final = "crons"
"""The keys of a file. Crons are declared in code: a file may show them, and `apply` leaves them alone."""

Place = tuple[str | int, ...]
"""Where a part is: keys and indexes from the top, as `("schedules", 0, "when")`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The value of a file, and on which line its parts begin."""

    name: str
    value: Any
    lines: Mapping[Place, int]

    def where(self, place: Place = ()) -> str:
        """`FILE:LINE` of a part, or of the smallest known part that it is in."""
        for end in range(len(place), -1, -1):
            if (line := self.lines.get(place[:end])) is not None:
                return f"{self.name}:{line}"
        return self.name


class Unreadable(Misuse):
    """A file that is not what its form says. The message begins with `FILE:LINE:`."""

    def __init__(self, name: str, line: int, problem: str) -> None:
        super().__init__(f"{name}:{line}: {problem}")
