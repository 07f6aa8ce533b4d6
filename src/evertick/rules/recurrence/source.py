"""The source form: a rule of times exactly as its author said it.

A `Spec` is the union of its crons, intervals, calendars, RRULEs and single times, minus its exclusions, cut
by `start` and `end`, read in one time zone. Every piece keeps the text it was parsed from beside its meaning,
so that a spec can be shown, described and written back without loss; the text never takes part in comparison,
the meaning always does.

Words: an *instant* is an integer of seconds since 1970-01-01T00:00:00Z; a *local time* counts the same way on
the wall clock, without a zone; a *day* is the number of days since 1970-01-01. Weekdays count from Sunday = 0
to Saturday = 6.

The parsers live beside this file, one for each standard (`cron`, `calendar`, `interval`, `rrule`); `compiler`
turns a spec into something that can be asked for times; `wire` reads and writes JSON.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip


# --- fields: what crons and calendars are made of -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Star:
    """`*`, `?` or `*/step`: every value of the field, or every `step`-th from its lowest."""

    step: int = 1
    question: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A single value."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """`first-last` or `first-last/step`, both ends included; it wraps around the field's top when `last <
    first`.
    """

    first: int
    last: int
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """`first/step`: from `first` up to the field's top."""

    first: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDay:
    """`L`, `L-before`, `LW`, `L-beforeW`: the month's last day, `before` days earlier, moved to the nearest
    weekday.
    """

    before: int = 0
    weekday: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestWeekday:
    """`dayW`: the weekday (Monday to Friday) nearest to that day, within the month."""

    day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NthWeekday:
    """`weekday#nth` (nth 1 to 5), or with nth = -1 `weekdayL`: the last one of the month."""

    weekday: int
    nth: int


Item = Star | Value | Range | From | LastDay | NearestWeekday | NthWeekday


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: a comma list of items. `text` is None when it was given as structured ranges instead of
    text.
    """

    items: tuple[Item, ...]
    text: str | None = field(default=None, compare=False)

    @property
    def is_star(self) -> bool:
        """Whether the field begins with `*` or `?`, which is what cron means by "unrestricted"."""
        return isinstance(self.items[0], Star)


# --- the sources of times -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Every `every` seconds, `offset` seconds after each whole multiple counted from `anchor`.

    `anchor` None is the Unix epoch; "start" is the spec's own start (the epoch when it has none); or an
    instant.
    """

    every: int
    offset: int = 0
    anchor: int | str | None = None
    every_text: str | None = field(default=None, compare=False)
    offset_text: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A cron line. `second` and `year` are None where the line has no such field.

    `and_days` is `+` before the day of week: both day fields must match. A line of `@every` has an `interval`
    and no meaningful fields. `zone` comes from a `CRON_TZ=` prefix. `macro` is the nickname written, such as
    `@daily`.
    """

    text: str = field(compare=False)
    minute: Field
    hour: Field
    day_of_month: Field
    month: Field
    day_of_week: Field
    second: Field | None = None
    year: Field | None = None
    and_days: bool = False
    zone: str | None = None
    interval: Interval | None = None
    macro: str | None = field(default=None, compare=False)
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Temporal's calendar: named fields that must all match. A field that was not written is None.

    Not written means 0 for second, minute and hour, and everything for the others (see `Spec.dialect` for the
    exceptions). Text fields know ranges, steps, lists and names, none of cron's special characters.
    """

    second: Field | None = None
    minute: Field | None = None
    hour: Field | None = None
    day_of_month: Field | None = None
    month: Field | None = None
    year: Field | None = None
    day_of_week: Field | None = None
    comment: str | None = field(default=None, compare=False)

    @property
    def is_structured(self) -> bool:
        """Whether any field was given as `{start, end, step}` ranges rather than as text."""
        return any(f is not None and f.text is None for f in self.fields)

    @property
    def fields(self) -> tuple[Field | None, ...]:
        """The seven fields from second to day of week."""
        return (
            self.second, self.minute, self.hour, self.day_of_month, self.month, self.year, self.day_of_week,
        )  # fmt: skip

    @property
    def names_no_time(self) -> bool:
        """Whether no time field was written; as an exclusion such a calendar drops whole days."""
        return self.second is None and self.minute is None and self.hour is None


class MomentKind(StrEnum):
    """How a date-time was written: with a zone of its own, without one, or as a date alone."""

    INSTANT = "instant"
    LOCAL = "local"
    DATE = "date"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A date or date-time as written. `value` is an instant, a local time or a day, as `kind` says."""

    kind: MomentKind
    value: int
    text: str = field(compare=False)


class Frequency(StrEnum):
    """FREQ of RFC 5545."""

    YEARLY = "YEARLY"
    MONTHLY = "MONTHLY"
    WEEKLY = "WEEKLY"
    DAILY = "DAILY"
    HOURLY = "HOURLY"
    MINUTELY = "MINUTELY"
    SECONDLY = "SECONDLY"


class Skip(StrEnum):
    """SKIP of RFC 7529: what becomes of a day that the month does not have."""

    OMIT = "OMIT"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByDay:
    """One BYDAY value: a weekday, with an ordinal (`-1FR`) or 0 for every such weekday."""

    weekday: int
    ordinal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recur:
    """The parts of one RRULE value (RFC 5545, 3.3.10), as written: implied parts are not filled in."""

    text: str = field(compare=False)
    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: Moment | None = None
    by_second: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_hour: tuple[int, ...] = ()
    by_day: tuple[ByDay, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_week_no: tuple[int, ...] = ()
    by_month: tuple[int, ...] = ()
    by_set_pos: tuple[int, ...] = ()
    week_start: int = 1
    skip: Skip | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RRule:
    """A recurrence set: DTSTART with at most one RRULE, plus RDATEs, minus EXDATEs and EXRULEs."""

    dtstart: Moment
    recur: Recur | None = None
    rdates: tuple[Moment, ...] = ()
    exdates: tuple[Moment, ...] = ()
    exrules: tuple[Recur, ...] = ()


# --- exclusions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeCalendar:
    """Times that the calendar matches; whole days when it names no time field."""

    calendar: Calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeCron:
    """Times that the cron line matches; a line without seconds covers the whole of its minutes."""

    cron: Cron


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeDates:
    """Whole local days."""

    days: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeDateRange:
    """Whole local days from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holiday:
    """One resolved holiday: the day and what it is called."""

    day: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeHolidays:
    """The public holidays of a country, resolved to plain days once and kept.

    `resolved` is None until `holidays.resolve` has looked them up; `source` then names the package and
    version they came from, so that a later look-up can show what changed.
    """

    country: str
    subdivision: str | None = None
    categories: tuple[str, ...] = ()
    resolved: tuple[Holiday, ...] | None = None
    source: str | None = None


Exclusion = ExcludeCalendar | ExcludeCron | ExcludeDates | ExcludeDateRange | ExcludeHolidays


# --- the whole ----------------------------------------------------------------------------------------------


class Gap(StrEnum):
    """What becomes of a local time that a clock change skips."""

    NEXT = "next"  # fire at the first moment after the gap
    SHIFT = "shift"  # fire as if the clocks had not changed: 02:30 becomes 03:30
    SKIP = "skip"  # do not fire that day


class Overlap(StrEnum):
    """Which pass counts of a local time that a clock change repeats."""

    FIRST = "first"
    BOTH = "both"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dst:
    """The policy for clock changes. None leaves that half to the source's own default.

    It governs fixed times. Patterns that follow real time (a minute or hour that begins with `*`, intervals,
    RRULEs of HOURLY and below) fire at every matching local time that really occurs, whatever is written
    here.
    """

    gap: Gap | None = None
    overlap: Overlap | None = None


class Dialect(StrEnum):
    """Whose rules a spec is read by.

    `temporal`: a cron's day fields must both match and its sixth field is the year; clock changes skip and
    repeat; an exclusion's missing time fields are 0; a structured calendar's missing field matches nothing;
    the search ends with the year 2100.
    """

    EVERTICK = "evertick"
    TEMPORAL = "temporal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """When: the union of the sources, minus the exclusions, within [start, end].

    `start` and `end` are instants, both included. `time_zone` None means UTC, unless a cron's `CRON_TZ=`
    names one; `time_zone_data` holds TZif bytes that win over any name. `jitter_ms` delays the actual time,
    never the nominal one.
    """

    crons: tuple[Cron, ...] = ()
    intervals: tuple[Interval, ...] = ()
    calendars: tuple[Calendar, ...] = ()
    rrules: tuple[RRule, ...] = ()
    times: tuple[Moment, ...] = ()
    excludes: tuple[Exclusion, ...] = ()
    start: int | None = None
    end: int | None = None
    jitter_ms: int = 0
    time_zone: str | None = None
    time_zone_data: bytes | None = None
    dst: Dst | None = None
    dialect: Dialect = Dialect.EVERTICK

    @property
    def has_sources(self) -> bool:
        """Whether the spec names any times at all; one that does not is legal and serves triggers only."""
        return bool(self.crons or self.intervals or self.calendars or self.rrules or self.times)
