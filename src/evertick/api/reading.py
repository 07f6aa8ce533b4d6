"""Reading the JSON of a row that people look at: what cannot be read is named, and the rest of the row is shown.

A row may have been written by a newer release, or changed by hand. It must not close the list that it stands in.
"""

import json
from typing import Any, Final, TypeVar

from evertick.base.errors import SchemaMismatch
from evertick.base.records.jobs import JobError
from evertick.base.records.stored import DEPTH_MAX, Stored, is_deeper

T = TypeVar("T")

SHOWN_DEPTH_MAX: Final = DEPTH_MAX + 20
"""Levels of a value that is shown, with those of what it stands in. What holds one of 255 cannot be written."""
TOLD_MAX: Final = 200
"""Characters of what is said about a column."""


class RowReading:
    """Reads the columns of one row; `problems` says which of them could not be read, and why."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each column that could not be read: its name and why."""
        return tuple(self._problems)

    def any(self, column: str, text: str | None) -> Any:
        """The JSON of a column; None if there is none, or if it cannot be read."""
        if text is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._note(column, f"it is no JSON: {error}")
            return None
        if is_deeper(text, value, than=SHOWN_DEPTH_MAX):
            self._note(column, f"it is more than {SHOWN_DEPTH_MAX} levels deep")
            return None
        return value

    def object(self, column: str, text: str | None) -> dict[str, Any]:
        """The JSON object of a column; an empty one if there is none, or if it cannot be read."""
        found = self.any(column, text or "{}")
        if isinstance(found, dict):
            return found
        if found is not None:
            self._note(column, f"it is no JSON object: {text}")
        return {}

    def value(self, column: str, stored: Stored[T] | None) -> T | None:
        """The value of a column; None if there is none, or if it cannot be read."""
        try:
            return None if stored is None else stored.value
        except SchemaMismatch as error:
            self._note(column, str(error))
            return None

    def error(self, column: str, stored: Stored[JobError] | None) -> JobError | None:
        """An error; one that says so if it cannot be read, because what has failed must not look as if it had not."""
        found = self.value(column, stored)
        if stored is None or found is not None:
            return found
        return JobError("Unreadable", self._problems[-1])

    def error_json(self, column: str, stored: Stored[JobError] | None) -> dict[str, Any] | None:
        """As `error`, as the API shows it."""
        found = self.error(column, stored)
        return None if found is None else found.to_json()

    def _note(self, column: str, why: str) -> None:
        self._problems.append(f"{column}: {why}"[:TOLD_MAX])
