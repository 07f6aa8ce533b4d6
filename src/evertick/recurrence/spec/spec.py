"""A spec: the union of its sources, minus its exclusions, limited by `start` and `end`, in one time zone.

`sources` defines the terms instant, local time and day. The parsers in `parse` convert text to specs, `search.compiler`
compiles a spec to find its times, `wire` reads and writes JSON.
"""

from dataclasses import dataclass
from enum import StrEnum

from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Calendar, Cron, Interval, Moment, RRule


class Gap(StrEnum):
    """What happens to a local time that a clock change skips."""

    NEXT = "next"  # fire at the first instant after the gap
    SHIFT = "shift"  # fire as if the clocks had not changed: 02:30 becomes 03:30
    SKIP = "skip"  # do not fire that day


class Overlap(StrEnum):
    """Which of the two passes fire if a clock change repeats a local time."""

    FIRST = "first"
    BOTH = "both"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dst:
    """The policy for clock changes. None means the default of the source.

    It applies to fixed times. Patterns that follow real time (a minute or hour that begins with `*`, intervals,
    RRULEs of HOURLY and below) fire at every matching local time that occurs, regardless of the policy.
    """

    gap: Gap | None = None
    overlap: Overlap | None = None


class Dialect(StrEnum):
    """The system whose rules a spec follows.

    `temporal`: a cron's day fields must both match and its sixth field is the year; clock changes skip and
    repeat; an exclusion's missing time fields are 0; a structured calendar's missing field matches nothing;
    nothing fires after the year 2100 in UTC; durations are written as in Go; EST, MST and HST are zones.
    """

    EVERTICK = "evertick"
    TEMPORAL = "temporal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A rule of times: the union of the sources, minus the exclusions, within [start, end].

    `start` and `end` are instants, both included. `time_zone` None means UTC, unless a cron has a
    `CRON_TZ=`; `time_zone_data` is TZif bytes that take precedence over any name. `jitter_ms` delays the actual time,
    never the nominal one.
    """

    crons: tuple[Cron, ...] = ()
    intervals: tuple[Interval, ...] = ()
    calendars: tuple[Calendar, ...] = ()
    rrules: tuple[RRule, ...] = ()
    times: tuple[Moment, ...] = ()
    excludes: tuple[exclude.Exclusion, ...] = ()
    start: int | None = None
    end: int | None = None
    jitter_ms: int = 0
    time_zone: str | None = None
    time_zone_data: bytes | None = None
    dst: Dst | None = None
    dialect: Dialect = Dialect.EVERTICK

    @property
    def types(self) -> str:
        """The types of its sources: cron, interval, calendar, rrule or once; joined by "+", "" if there is none."""
        sources = ("cron", self.crons), ("interval", self.intervals), ("calendar", self.calendars)
        return "+".join(word for word, each in (*sources, ("rrule", self.rrules), ("once", self.times)) if each)

    @property
    def has_sources(self) -> bool:
        """Whether the spec has any times. A spec without times is legal; its schedule runs only when triggered."""
        return bool(self.crons or self.intervals or self.calendars or self.rrules or self.times)
