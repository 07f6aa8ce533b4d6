"""Times on a page: on the wall clock of the page's zone, with the distance from now; the title has the full time.

14:30 in 12 min
Mon 23 Nov 08:00 in 3 d
    02:00 America/New_York          a second line, if the schedule has another zone
"""

from datetime import datetime, timedelta, timezone
from typing import Final

from markupsafe import Markup

from evertick.base.durations import distance, length
from evertick.base.instants import NEVER, Instant, from_datetime, to_datetime, to_iso, to_zone
from evertick.dashboard.markup.filling import filled
from evertick.recurrence.zones.names import is_utc, zone_named
from evertick.recurrence.zones.zones import Zone

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Times:
    """Formats times for a page: `now` is the time of the page, `zone` is the zone of its wall clock."""

    def __init__(self, now: Instant, zone: Zone) -> None:
        self.now = now
        self.zone = zone
        self._today = self.local(now)

    def local(self, at: datetime | Instant, zone: Zone | None = None) -> datetime:
        """A time on the wall clock of a zone, by default the page's."""
        instant = at if isinstance(at, int) else from_datetime(at)
        offset_s = (zone or self.zone).offset_at(instant // 1000)
        return to_zone(to_datetime(Instant(instant)), timezone(timedelta(seconds=offset_s)))

    def clock(self, at: datetime | Instant, zone: Zone | None = None, *, seconds: bool | None = None) -> str:
        """`14:30`, with the date if it is not today, and with the year if it is not the current year.

        Seconds are shown if they are not zero, unless `seconds` is given.
        """
        shown, today = self.local(at, zone), self._today if zone is None else self.local(self.now, zone)
        has_seconds = bool(shown.second) if seconds is None else seconds
        hours = f"{shown:%H:%M:%S}" if has_seconds else f"{shown:%H:%M}"
        return hours if shown.date() == today.date() else f"{self.day(shown)} {hours}"

    def time(self, at: datetime | Instant, other: datetime | Instant) -> str:
        """`14:30:05`, with the date if the day differs from that of `other`."""
        shown, there = self.local(at), self.local(other)
        return f"{shown:%H:%M:%S}" if shown.date() == there.date() else f"{self.day(shown)} {shown:%H:%M:%S}"

    def elsewhere(self, at: datetime | Instant, shown: datetime, zone: Zone | None = None) -> str:
        """`14:30`, with the day of the week if it differs from that of `shown`, the same time in another zone."""
        there = self.local(at, zone)
        return f"{there:%H:%M}" if there.date() == shown.date() else f"{DAYS[there.weekday()]} {there:%H:%M}"

    def day(self, shown: datetime) -> str:
        """`Mon 23 Nov`, with the year if it is not the current year."""
        year = f" {shown.year}" if shown.year != self._today.year else ""
        return f"{DAYS[shown.weekday()]} {shown.day} {MONTHS[shown.month - 1]}{year}"

    def brief(self, at: datetime | Instant) -> str:
        """`14:30` today, `28 Mar` on another day: for narrow columns, whose title has the full time."""
        shown = self.local(at)
        return f"{shown:%H:%M}" if shown.date() == self._today.date() else f"{shown.day} {MONTHS[shown.month - 1]}"

    def dated(self, at: datetime | Instant) -> str:
        """Like `clock`, always with the date."""
        shown = self.local(at)
        return f"{self.day(shown)} {shown:%H:%M:%S}" if shown.second else f"{self.day(shown)} {shown:%H:%M}"

    def precise(self, at: datetime | Instant) -> str:
        """Like `clock`, with milliseconds, for log lines."""
        shown = self.local(at)
        return f"{self.clock(at, seconds=True)}.{shown.microsecond // 1000:03}"

    def relative(self, at: datetime | Instant) -> str:
        """The distance of a time from now: `in 5 s`, `3 min ago`."""
        return distance(Instant(at if isinstance(at, int) else from_datetime(at)), self.now)

    def ago(self, at: datetime | Instant) -> Markup:
        """The distance of a time from now, inside a sentence. It is updated with the page's clock."""
        instant = Instant(at if isinstance(at, int) else from_datetime(at))
        words = self.relative(instant)
        return filled(
            '<time class="ago" datetime="{}" title="{}"><i>{}</i></time>', to_iso(instant), self._title(instant), words
        )

    def when(
        self, at: datetime | Instant | None, other: str | None = None, *, relative: bool = True, dated: bool = False
    ) -> Markup:
        """A time in a list; empty for None. `other` is the zone of a second line, shown if it differs."""
        if at is None:
            return Markup()
        instant = Instant(at if isinstance(at, int) else from_datetime(at))
        if instant >= NEVER:
            return Markup("<i>at an event</i>")
        words = self.dated(instant) if dated else self.clock(instant)
        tail = filled(" <i>{}</i>", self.relative(instant)) if relative else ""
        line = filled(
            '<time datetime="{}" title="{}"><b>{}</b>{}</time>', to_iso(instant), self._title(instant), words, tail
        )
        return line + self._second(instant, other)

    def _title(self, instant: Instant) -> str:
        return f"{self.local(instant).isoformat(timespec='milliseconds')} · {to_iso(instant)}"

    def _second(self, instant: Instant, other: str | None) -> Markup:
        zone = None if other is None or other == self.zone.name else zone_named(other, abbreviations=True)
        if zone is None or (is_utc(zone.name) and is_utc(self.zone.name)):
            return Markup()
        return filled("<small>{} {}</small>", self.elsewhere(instant, self.local(instant), zone), zone.name)


def lasted(duration_ms: int | None) -> str:
    """A duration as text; empty for None."""
    return "" if duration_ms is None else length(duration_ms)


def seconds(value: timedelta | None) -> str:
    """A duration that is a `timedelta`, as text."""
    return "" if value is None else length(round(value.total_seconds() * 1000))
