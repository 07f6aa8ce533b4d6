"""Backfills on a page: the span that was typed, and the number of its times by day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import Field

from evertick.api.schedules import BackfillPlanView, BackfillView, ScheduleDescription
from evertick.app.bodies import Body
from evertick.base.durations import length
from evertick.base.errors import InvalidSpec
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime, to_iso
from evertick.dashboard.editor.forms import number
from evertick.dashboard.forms.form import Form
from evertick.recurrence.parse.moments import format_day, format_local, parse_moment, typed_moment
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.sources import MomentKind
from evertick.recurrence.zones.zones import Edge, Zone, instant_of, local_of
from evertick.rules.schedules.policies import Overlap

MILLISECOND: Final = timedelta(milliseconds=1)
EDGES: Final[Mapping[str, Edge]] = {"start": "first", "end": "last"}
BARS_MAX: Final = 62
HOWS: Final = {
    "buffer_all": "One after another, all of them run",
    "limited": "Several at a time",
    "allow_all": "All at once",
    "own": "By the schedule's own overlap policy",
}
"""The ways in which the times of a backfill can run."""
LOSSY: Final = {
    Overlap.SKIP: "The schedule's own policy is skip: the first time runs, and the others are skipped meanwhile.",
    Overlap.BUFFER_ONE: "The schedule's own policy is buffer_one: one time runs, one waits, the others are skipped.",
    Overlap.CANCEL_OTHER: "The schedule's own policy is cancel_other: only the newest time gets to run.",
    Overlap.TERMINATE_OTHER: "The schedule's own policy is terminate_other: only the newest time gets to run.",
}
"""What happens to many times at once under policies that are not suitable for a backfill."""
SPANS: Final = ("hour", "day", "week", "month", "year")
SIZES: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
HOURS_MAX: Final = 48


class RangeAsked(Body):
    """A range as it was typed, and the way in which its times run."""

    start: str = Field("", max_length=200)
    end: str = Field("", max_length=200)
    how: str = Field("buffer_all", max_length=200)
    at_a_time: str = Field("", max_length=200)
    tz: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span of time, both ends included."""

    start: datetime
    end: datetime
    is_one: bool = False
    """Whether the span is a single time, including the delay of its jitter."""

    @property
    def exact(self) -> dict[str, str]:
        """The two form fields for this span, independent of the zone and of when it is sent."""
        begin, end = (to_iso(from_datetime(each)) for each in (self.start, self.end))
        return {"start": begin, "end": begin if self.is_one else end}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The number of times in a day (or hour, week, month, year) that begins at `begin` on the wall clock."""

    begin: datetime
    run: int
    done: int

    @property
    def all(self) -> int:
        """The number of all times in the bar."""
        return self.run + self.done


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Bars of one kind: `hour`, `day`, `week`, `month` or `year`."""

    unit: str
    bars: tuple[Bar, ...]

    @property
    def most(self) -> int:
        """The number of times in the fullest bar."""
        return max((bar.all for bar in self.bars), default=0)


def usual_span(zone: Zone, now: Instant) -> tuple[str, str]:
    """The initial values of the fields: yesterday, on the schedule's clock."""
    yesterday = format_day(local_of(zone, now // SECOND_MS) // DAY - 1)
    return yesterday, yesterday


def span_of(form: Form, zone: Zone, now: Instant, jitter_ms: int) -> Span | None:
    """The typed span, on the clock of a zone; None if it is invalid, with the error stored at its field.

    A span with equal ends is that single time, including the delay of its jitter.
    """
    found: dict[str, int] = {}
    for name in ("start", "end"):
        try:
            found[name] = typed_moment(form[name], f"the {name}", zone, now // SECOND_MS, EDGES[name])
        except (InvalidSpec, OverflowError) as error:
            form.fail(name, str(error))
    if len(found) < 2:
        return None
    if found["end"] < found["start"]:
        form.fail("end", "it ends before it starts")
        return None
    is_one = found["end"] == found["start"]
    end_ms = found["end"] * SECOND_MS + (jitter_ms if is_one else 0)
    start = to_datetime(Instant(found["start"] * SECOND_MS))
    return Span(start=start, end=to_datetime(Instant(end_ms)), is_one=is_one)


def shown_range(form: Form, zone: Zone) -> dict[str, str]:
    """The two fields of a range on the clock of a zone: links contain times with an offset.

    Other text is not changed, and neither is the second of two times with the same wall clock.
    """
    return {name: _in_zone(form[name], zone) for name in ("start", "end")}


def _in_zone(text: str, zone: Zone) -> str:
    try:
        moment = parse_moment(text)
    except InvalidSpec:
        return text
    if moment.kind is not MomentKind.INSTANT:
        return text
    local = local_of(zone, moment.value)
    return _field(local) if instant_of(zone, local) == moment.value else text


def _field(local: int) -> str:
    """A local time as text for a field: `2026-12-24 09:00`, with seconds if they are not zero."""
    return format_local(local).replace("T", " ").removesuffix(":00")


def how_of(form: Form) -> dict[str, Any]:
    """How the times of a backfill run, as options of `schedules.backfill`; errors are stored at their fields."""
    how = form["how"] or "buffer_all"
    found: dict[str, Any] = {"overlap": None, "max_active": None}
    if how == "limited":
        found["max_active"] = number(form, "at_a_time")
        if found["max_active"] in (None, 0):
            form.fail("at_a_time", "Enter how many runs may be open at a time, at least 1")
    elif how not in HOWS:
        form.fail("how", f"{how!r} is not a way to run them")
    elif how != "own":
        found["overlap"] = how
    return found


def histogram(plan: BackfillPlanView, zone: Zone) -> Histogram:
    """The times of a plan by day; by longer spans if there are many days, by hour if there are few."""
    ran = set(plan.already_ran)
    times = sorted({time.nominal for time in plan.times} | ran)
    run = {time.nominal for time in plan.times}
    if not times:
        return Histogram(unit="day", bars=())
    local = [_local(at, zone) for at in times]
    unit = next((each for each in SPANS if _number(local[0], local[-1], each) <= BARS_MAX), "year")
    counts: dict[datetime, list[int]] = {}
    begin = _begin(local[0], unit)
    while begin <= local[-1]:
        counts[begin] = [0, 0]
        begin = _following(begin, unit)
    for at, shown in zip(times, local, strict=True):
        counts[_begin(shown, unit)][at not in run] += 1
    bars = tuple(Bar(begin=at, run=count[0], done=count[1]) for at, count in counts.items())
    return Histogram(unit=unit, bars=bars)


def about(count: int, schedule: ScheduleDescription, at_a_time: int | None) -> str | None:
    """An estimate of how long the runs take, from the last runs; None if nothing is known, or all run at once."""
    took = sorted(each.duration for each in schedule.recent if each.duration is not None)
    if not took or not at_a_time or not count:
        return None
    median = took[len(took) // 2]
    whole = median * count / at_a_time
    return f"{length(round(whole / MILLISECOND))}, at a median of {length(round(median / MILLISECOND))}"


def to_go(backfill: BackfillView) -> int:
    """The number of its times that are not decided yet."""
    decided = backfill.started + backfill.skipped + backfill.missed
    return 0 if backfill.done else max(0, backfill.times - decided)


def shares(backfill: BackfillView) -> Sequence[tuple[str, float, float]]:
    """The parts of the progress bar: a class, the start and the width, in percent."""
    counts = (
        ("ok", backfill.ended - backfill.failed),
        ("failed", backfill.failed),
        ("skipped", backfill.skipped),
        ("missed", backfill.missed),
        ("running", backfill.started - backfill.ended),
    )
    total = max(1, backfill.times, sum(count for _, count in counts))
    parts, begin = [], 0.0
    for css, count in counts:
        width = 100 * count / total
        if count:
            parts.append((css, round(begin, 2), round(width, 2)))
        begin += width
    return parts


def _local(at: datetime, zone: Zone) -> datetime:
    """A time on the wall clock of a zone, without a zone."""
    seconds = local_of(zone, from_datetime(at) // SECOND_MS)
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _begin(local: datetime, unit: str) -> datetime:
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "hour":
        return local.replace(minute=0, second=0, microsecond=0)
    if unit == "week":
        return midnight - timedelta(days=midnight.weekday())
    if unit == "day":
        return midnight
    return midnight.replace(day=1) if unit == "month" else midnight.replace(month=1, day=1)


def _following(begin: datetime, unit: str) -> datetime:
    if unit in SIZES:
        return begin + SIZES[unit]
    months = begin.year * 12 + begin.month - 1 + (1 if unit == "month" else 12)
    return begin.replace(year=months // 12, month=months % 12 + 1)


def _number(first: datetime, last: datetime, unit: str) -> int:
    """The number of bars. Hours are used for at most two days, because a month of hours would be unreadable."""
    if unit in SIZES:
        bars = (_begin(last, unit) - _begin(first, unit)) // SIZES[unit] + 1
        return bars if unit != "hour" or bars <= HOURS_MAX else BARS_MAX + 1
    months = (last.year - first.year) * 12 + last.month - first.month + 1
    return months if unit == "month" else last.year - first.year + 1
