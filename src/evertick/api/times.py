"""Schemas of previews: the coming times of a spec or of a schedule, as text on its own clock and in UTC."""

from typing import Any, Self

from evertick.api.schema import Schema
from evertick.recurrence.explain import clock_note
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.search.recurrence import Recurrence


class _Sparse(Schema):
    """A schema whose JSON form leaves out what was not set."""

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_unset=True)


class PreviewedTime(_Sparse):
    """A time: on the schedule's clock, and in UTC. `actual` is set where jitter moves it, `note` at clock changes."""

    time: str
    utc: str
    actual: str | None = None
    note: str | None = None

    @classmethod
    def at(cls, recurrence: Recurrence, second: int, **more: str) -> Self:
        """The instant `second` on the clock of a recurrence, with a note if a clock change affects it."""
        note = clock_note(recurrence, second)
        if note is not None:
            more["note"] = note.text
        time = format_instant(second, recurrence.zone.offset_at(second))
        return cls(time=time, utc=format_instant(second), **more)


class Remark(_Sparse):
    """A likely mistake in a spec: a code for programs, the place, and a sentence."""

    code: str
    where: str
    message: str


class TimePreview(_Sparse):
    """Coming times. `never` is set if none ever comes, `ended` if no further one does."""

    schedule: str | None = None
    description: str | None
    time_zone: str
    after: str
    times: tuple[PreviewedTime, ...]
    never: bool = False
    ended: bool = False
    warnings: tuple[Remark, ...] = ()
