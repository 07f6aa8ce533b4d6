"""The sources of times as they were written: crons, intervals, calendars, RRULEs and single times.

Every object keeps its text in addition to the parsed value, so that it can be shown and written back without loss.
Comparisons ignore the text.

Terms: an *instant* is an integer of seconds since 1970-01-01T00:00:00Z; a *local time* counts the same way on the wall
clock, without a zone; a *day* is the number of days since 1970-01-01. Weekdays count from Sunday = 0 to Saturday = 6.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from evertick.base import options
from evertick.base.errors import InvalidSpec

WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip


# --- fields of crons and calendars -----------------------------------------------------------


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
    """`first-last` or `first-last/step`, both ends included; it wraps around the field's maximum if `last < first`."""

    first: int
    last: int
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """`first/step`: from `first` up to the field's maximum."""

    first: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDay:
    """`L`, `L-before`, `LW`, `L-beforeW`: the month's last day, `before` days earlier, moved to the nearest weekday."""

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
    """One field: a comma list of items. `text` is None if it was given as structured ranges."""

    items: tuple[Item, ...]
    text: str | None = field(default=None, compare=False)

    @property
    def is_star(self) -> bool:
        """Whether the field begins with `*` or `?`, which makes it "unrestricted" in cron's star rule."""
        return isinstance(self.items[0], Star)


# --- the sources of times -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Every `every` seconds, `offset` seconds after each whole multiple counted from `anchor`.

    `anchor` None is the Unix epoch; "start" is the spec's start (the epoch if it has none); or an instant.
    """

    every: int
    offset: int = 0
    anchor: int | str | None = None
    every_text: str | None = field(default=None, compare=False)
    offset_text: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A cron line. `second` and `year` are None where the line has no such field.

    `and_days` is `+` before the day of week: both day fields must match. A line with `@every` has an `interval`,
    and its fields have no meaning. `zone` comes from a `CRON_TZ=` prefix. `macro` is the nickname, such as `@daily`.
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
    """Temporal's calendar: named fields that must all match. A missing field is None.

    A missing field means 0 for second, minute and hour, and everything for the others (see `Spec.dialect` for the
    exceptions). Text fields accept ranges, steps, lists and names, but none of cron's special characters.
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
    def has_no_time(self) -> bool:
        """Whether it has no time field; as an exclusion such a calendar excludes whole days."""
        return self.second is None and self.minute is None and self.hour is None


class MomentKind(StrEnum):
    """The form of a date-time: with a zone, without one, or a date alone."""

    INSTANT = "instant"
    LOCAL = "local"
    DATE = "date"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A date or date-time as written. `value` is an instant, a local time or a day, depending on `kind`."""

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
    """SKIP of RFC 7529: the treatment of a day that the month does not have."""

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


# -- Text from outside: its length limit, and its form in messages.

TEXT_MAX: Final = 8_192
"""The length limit of the text of one rule. A longer text is refused before it is parsed."""


def bounded(text: str, what: str, limit: int = TEXT_MAX) -> str:
    """The text itself. Raises InvalidSpec if it is not text, is longer than `limit`, or cannot be stored."""
    if not isinstance(text, str):
        raise InvalidSpec(f"{what} must be text, not {type(text).__name__}")
    if len(text) > limit:
        raise InvalidSpec(f"{what} has {len(text)} characters; the limit is {limit}")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidSpec(f"{what} {shown(text)} contains a lone surrogate, which UTF-8 cannot encode; remove it")
    return text


def shown(text: object, limit: int = 60) -> str:
    """The text quoted for a message, with control characters escaped, and shortened."""
    if not isinstance(text, str):
        return options.shown(text)[:limit]
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}... ({len(text)} characters)"
