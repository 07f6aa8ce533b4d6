"""Exclusions: times that are removed from all sources of a spec. Used as `exclude.Dates`, `exclude.Holidays`."""

from dataclasses import dataclass

from evertick.recurrence.spec import sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Times that the calendar matches; whole days if it has no time field."""

    calendar: sources.Calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Times that the cron line matches; a line without seconds covers the whole of its minutes."""

    cron: sources.Cron


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates:
    """Whole local days."""

    days: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DateRange:
    """Whole local days from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holiday:
    """One resolved holiday: the day and its name."""

    day: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holidays:
    """The public holidays of a country, resolved to days once and stored.

    `resolved` is None until `holidays.resolve` has looked them up; `source` is the package and its
    version, so that a later look-up can show the changes.
    """

    country: str
    subdivision: str | None = None
    categories: tuple[str, ...] = ()
    resolved: tuple[Holiday, ...] | None = None
    source: str | None = None


Exclusion = Calendar | Cron | Dates | DateRange | Holidays
