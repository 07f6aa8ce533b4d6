"""Specs as authors write them, drawn at random: Hypothesis strategies for every source and exclusion."""

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from evertick.recurrence.parse.cron import parse_calendar, parse_cron, parse_temporal_cron
from evertick.recurrence.parse.moments import format_day, format_instant, format_local
from evertick.recurrence.parse.rrule import RFC_WEEKDAYS, parse_rrule
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Calendar, Cron, Interval, Moment, MomentKind, RRule
from evertick.recurrence.spec.spec import Dialect, Dst, Gap, Overlap, Spec

Draw = Callable[[st.SearchStrategy[Any]], Any]

ZONES = (
    None, "UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Indiana/Knox", "Etc/GMT+5",
    "Asia/Kathmandu", "America/Port-au-Prince",
)  # fmt: skip
PERIODS = (1, 5, 60, 90, 300, 900, 1200, 1800, 3600, 5400, 7200, 18900, 86400, 172800, 604800, 1209600)


@cache
def items(low: int, high: int, *, wraps: bool) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    pair = st.tuples(value, value).filter(lambda p: wraps or p[0] <= p[1])
    step = st.integers(1, high + 1)
    return st.one_of(
        value.map(str),
        pair.map(lambda p: f"{p[0]}-{p[1]}"),
        st.tuples(pair, step).map(lambda p: f"{p[0][0]}-{p[0][1]}/{p[1]}"),
        st.tuples(value, step).map(lambda p: f"{p[0]}/{p[1]}"),
        step.map(lambda n: f"*/{n}"),
    )


@cache
def fields(
    low: int, high: int, special: st.SearchStrategy[str] | None = None, *, wraps: bool = True
) -> st.SearchStrategy[str]:
    item = items(low, high, wraps=wraps)
    item = item if special is None else st.one_of(item, special)
    plain = st.integers(low, high).map(str)
    return st.one_of(st.just("*"), st.just("*"), plain, st.lists(item, min_size=1, max_size=3).map(",".join))


SPECIAL_DATES = st.one_of(
    st.sampled_from(["L", "LW", "l"]),
    st.integers(1, 30).map(lambda n: f"L-{n}"),
    st.integers(1, 30).map(lambda n: f"L-{n}W"),
    st.integers(1, 31).map(lambda n: f"{n}W"),
)
SPECIAL_WEEKDAYS = st.one_of(
    st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda p: f"{p[0]}#{p[1]}"),
    st.integers(0, 7).map(lambda n: f"{n}L"),
)


@st.composite
def crons(draw: Draw) -> Cron:
    parts = [draw(fields(0, 59)), draw(fields(0, 23)), draw(fields(1, 31, SPECIAL_DATES)), draw(fields(1, 12))]
    parts.append(draw(st.sampled_from(["", "", "+"])) + draw(fields(0, 7, SPECIAL_WEEKDAYS)))
    size = draw(st.integers(0, 5))
    if size < 2:
        parts.insert(0, draw(fields(0, 59)))
    if size == 0:
        parts.append(draw(fields(1970, 2199, wraps=False)))
    return parse_cron(" ".join(parts))


@st.composite
def temporal_crons(draw: Draw) -> Cron:
    bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
    parts = [draw(fields(low, high, wraps=False)) for low, high in bounds]
    return parse_temporal_cron(" ".join(parts))


@st.composite
def calendars(draw: Draw) -> Calendar:
    bounds = {
        "second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day_of_month": (1, 31), "month": (1, 12),
        "year": (2000, 2100), "day_of_week": (0, 7),
    }  # fmt: skip
    return parse_calendar({n: draw(fields(*b, wraps=False)) for n, b in bounds.items() if draw(st.integers(0, 2)) == 0})


@st.composite
def intervals(draw: Draw) -> Interval:
    every = draw(st.one_of(st.sampled_from(PERIODS), st.integers(1, 10**7)))
    offset = draw(st.one_of(st.just(0), st.integers(0, every - 1)))
    anchor = draw(st.one_of(st.none(), st.just("start"), st.integers(0, 2 * 10**9)))
    return Interval(every=every, offset=offset, anchor=anchor)


SECONDS = st.integers(800_000_000, 2_000_000_000)
DAYS = SECONDS.map(lambda value: value // 86_400)
MOMENTS = st.one_of(
    SECONDS.map(lambda value: Moment(kind=MomentKind.LOCAL, value=value, text=format_local(value))),
    SECONDS.map(lambda value: Moment(kind=MomentKind.INSTANT, value=value, text=format_instant(value))),
    DAYS.map(lambda value: Moment(kind=MomentKind.DATE, value=value, text=format_day(value))),
)


@cache
def numbers(low: int, high: int, *, negative: bool = False) -> st.SearchStrategy[list[int]]:
    value = st.integers(low, high)
    value = st.one_of(value, value.map(lambda n: -n)) if negative else value
    some = st.lists(value, min_size=1, max_size=3, unique=True)
    return st.one_of(st.just(list[int]()), st.just(list[int]()), some)


WEEKDAYS_OF = {
    nth: st.lists(st.tuples(st.integers(-nth, nth), st.integers(0, 6)), max_size=3, unique=True) for nth in (0, 5, 53)
}
"""Days of the week, by how many of each a period has."""


@st.composite
def recurs(draw: Draw, *, sub_daily: bool = True) -> str:
    names = ["YEARLY", "MONTHLY", "WEEKLY", "DAILY"] + (["HOURLY", "MINUTELY", "SECONDLY"] if sub_daily else [])
    frequency = draw(st.sampled_from(names))
    parts = {"FREQ": frequency}
    if draw(st.booleans()):
        parts["INTERVAL"] = str(draw(st.integers(1, 90)))
    lists: dict[str, list[int]] = {"BYMONTH": draw(numbers(1, 12))}
    if frequency == "YEARLY":
        lists["BYWEEKNO"] = draw(numbers(1, 53, negative=True))
    if frequency not in ("DAILY", "WEEKLY", "MONTHLY"):
        lists["BYYEARDAY"] = draw(numbers(1, 366, negative=True))
    if frequency != "WEEKLY":
        lists["BYMONTHDAY"] = draw(numbers(1, 31, negative=True))
    lists |= {"BYHOUR": draw(numbers(0, 23)), "BYMINUTE": draw(numbers(0, 59)), "BYSECOND": draw(numbers(0, 59))}
    parts |= {name: ",".join(map(str, values)) for name, values in lists.items() if values}
    nth = {"YEARLY": 53, "MONTHLY": 5}.get(frequency, 0) if not lists.get("BYWEEKNO") else 0
    days = draw(WEEKDAYS_OF[nth])
    if days and draw(st.booleans()):
        parts["BYDAY"] = ",".join(f"{n or ''}{RFC_WEEKDAYS[day]}" for n, day in days)
    if any(name.startswith("BY") for name in parts) and draw(st.integers(0, 3)) == 0:
        positions = draw(numbers(1, 5, negative=True))
        parts |= {"BYSETPOS": ",".join(map(str, positions))} if positions else {}
    if draw(st.integers(0, 3)) == 0:
        parts["WKST"] = draw(st.sampled_from(RFC_WEEKDAYS))
    if draw(st.integers(0, 5)) == 0:
        skips = ["OMIT", "BACKWARD"] if "BYYEARDAY" in parts else ["OMIT", "BACKWARD", "FORWARD"]  # that is refused
        parts |= {"RSCALE": "GREGORIAN", "SKIP": draw(st.sampled_from(skips))}
    return ";".join(f"{name}={value}" for name, value in parts.items())


RECURS = recurs()
DAILY_RECURS = recurs(sub_daily=False)
TWO_MOMENTS = st.lists(MOMENTS, max_size=2)


@st.composite
def rrules(draw: Draw) -> RRule:
    text: str = draw(RECURS)
    end = draw(st.integers(0, 9))
    if end < 2:
        text += f";COUNT={draw(st.integers(1, 50))}"
    elif end < 5:
        until = format_local(draw(st.integers(1_900_000_000, 2_000_000_000))).replace("-", "").replace(":", "")
        text += ";UNTIL=" + {2: until[:8], 3: until, 4: until + "Z"}[end]
    recur = None if end == 5 else text
    exrules: tuple[str, ...] = ()
    if recur is not None and draw(st.integers(0, 5)) == 0:
        exrules = (draw(DAILY_RECURS),)
    return parse_rrule(draw(MOMENTS), recur, tuple(draw(TWO_MOMENTS)), tuple(draw(TWO_MOMENTS)), exrules)


EXCLUSIONS = st.one_of(
    crons().map(lambda cron: exclude.Cron(cron=cron)),
    calendars().map(lambda calendar: exclude.Calendar(calendar=calendar)),
    st.lists(DAYS, min_size=1, max_size=4).map(lambda days: exclude.Dates(days=tuple(days))),
    st.tuples(DAYS, st.integers(0, 40)).map(lambda p: exclude.DateRange(first=p[0], last=p[0] + p[1])),
    st.builds(
        exclude.Holidays,
        country=st.sampled_from(["US", "DE", "XK", "GB", "FR"]),
        subdivision=st.sampled_from([None, None, "NY", "BY", "ENG"]),
        categories=st.sampled_from([(), ("bank",), ("public", "bank")]),
        resolved=st.just(()),
    ),
)


# Strategies are made once: to make one costs Hypothesis more than to draw from it.
SOURCES: dict[str, st.SearchStrategy[Any]] = {
    "crons": st.lists(crons(), max_size=2),
    "intervals": st.lists(intervals(), max_size=1),
    "calendars": st.lists(calendars(), max_size=1),
    "rrules": st.lists(rrules(), max_size=2),
    "times": TWO_MOMENTS,
}
TEMPORAL_SOURCES = SOURCES | {"crons": st.lists(temporal_crons(), max_size=2)}
OPTIONS = st.fixed_dictionaries(
    {
        "excludes": st.lists(EXCLUSIONS, max_size=2).map(tuple),
        "start": st.one_of(st.none(), st.integers(10**9, 15 * 10**8)),
        "end": st.one_of(st.none(), st.integers(2 * 10**9, 3 * 10**9)),
        "jitter_ms": st.sampled_from([0, 0, 500, 30_000, 3_600_000, 90_500]),
        "time_zone": st.sampled_from(ZONES),
        "dst": st.one_of(
            st.none(),
            st.builds(
                Dst,
                gap=st.one_of(st.none(), st.sampled_from(list(Gap))),
                overlap=st.one_of(st.none(), st.sampled_from(list(Overlap))),
            ),
        ),
    }
)


@st.composite
def specs(draw: Draw) -> Spec:
    """Specs of one kind of source, or of several; about half of them in a zone whose clocks change."""
    temporal = draw(st.integers(0, 5)) == 0
    kinds = TEMPORAL_SOURCES if temporal else SOURCES
    chosen = draw(st.sampled_from([*kinds, "all", "all"]))
    sources: dict[str, Any] = {n: tuple(draw(kind)) for n, kind in kinds.items() if chosen in (n, "all")}
    return Spec(**sources, **draw(OPTIONS), dialect=Dialect.TEMPORAL if temporal else Dialect.EVERTICK)
