"""Sentences: "every weekday at 9am except holidays in New York" read into a spec. A strict grammar.

It reads exactly what `describe` writes, and synonyms of it. Nothing is guessed: what is not understood, or
leaves something open, is an InvalidSpec that says which words, and what could stand there.

The promise: `meaning_of(parse_sentence(describe(spec)))` is `meaning_of(spec)`. It holds for every spec that
compiles, apart from those that have no such sentence:

- specs that `describe` calls "never", and parts of a spec that never fire on their own;
- zone data of its own instead of a zone's name;
- more than 50 single dates in one place, more than 100 sources or exclusions, and sentences of more than
  `TEXT_MAX` characters;
- an EXRULE without an RRULE, or with a COUNT; BYSECOND=60, which is read as 59;
- an RRULE whose sentence needs a DTSTART that the clocks skip.
"""

from dataclasses import dataclass, field
from typing import Final

from evertick.rules.recurrence.civil import DAY
from evertick.rules.recurrence.source import (
    Dst,
    ExcludeCron,
    ExcludeDateRange,
    ExcludeDates,
    ExcludeHolidays,
    Exclusion,
    Gap,
    Moment,
    MomentKind,
    Overlap,
    Spec,
)
from evertick.rules.recurrence.words.building import Sources, build
from evertick.rules.recurrence.words.clauses import Clause, read_clause
from evertick.rules.recurrence.words.clock import SIXTY, pattern_mask, read_times
from evertick.rules.recurrence.words.cronlines import cron_lines
from evertick.rules.recurrence.words.dates import read_day, read_moment
from evertick.rules.recurrence.words.days import Days
from evertick.rules.recurrence.words.durations import read_milliseconds
from evertick.rules.recurrence.words.phrases import GAPS, NO_SOURCES, OVERLAPS
from evertick.rules.recurrence.words.places import country_names, read_country, read_zone, zone_labels
from evertick.rules.recurrence.words.read_days import read_days, read_span
from evertick.rules.recurrence.words.reader import TEXT_MAX, Reader
from evertick.rules.recurrence.words.scope import Scope, scope_named

__all__ = ["FORMS", "TEXT_MAX", "parse_sentence"]

CLAUSES_MAX: Final = 100
EXCLUSIONS_MAX: Final = 100
_NO_CATEGORIES: Final = frozenset(
    ["holidays", "every", "each", "on", "at", "from", "in", "the", "except", "daily", "hourly"]
)
_WHOLE_DAY: Final = (1 << 86_400) - 1

FORMS: Final = (
    "every 15 minutes",
    "every hour from 09:00 through 17:00 on weekdays",
    "at 09:00 on weekdays",
    "at 09:00 and 17:00 every day",
    "every weekday at 9am",
    "every day at noon",
    "every Monday and Friday at 09:00",
    "at 00:00 on the last day of every month",
    "last Friday of the month at 17:00",
    "at 09:00 on the first Monday of every month",
    "at 08:30 on the 1st and 15th of every month",
    "at 00:00 on 1 January every year",
    "at 12:00 on Sundays in December",
    "every 5 hours, offset by 15 minutes",
    "every 2 weeks on Monday at 09:00, starting 5 January 2026",
    "monthly on the 1st at 12:00, starting 1 January 2026, 10 times",
    "on 24 December 2026 at 09:00",
    "at 09:00 on weekdays, except holidays in New York, New York time",
    "at 09:00 on weekdays, except on 24 through 26 December every year",
    "every 5 minutes, beginning 1 January 2026 at 00:00, ending 1 July 2026 at 00:00",
)
"""Sentences that show the grammar; the nearest ones are offered when one is not understood."""

_MORE_WORDS: Final = (
    "sunday tuesday wednesday thursday saturday weekend weekends february march april may june july august september "
    "october november midnight second seconds minute hours daily weekly yearly annually hourly third fourth fifth "
    "other until skipping only times once delayed up to between of falling nearest utc time holidays week year of"
)
_VOCABULARY: Final = frozenset(" ".join(FORMS).lower().replace(",", "").split()) | frozenset(_MORE_WORDS.split())


@dataclass(slots=True)
class _Tail:
    """What stands behind the clauses and holds for all of them."""

    excludes: list[Exclusion] = field(default_factory=list)
    start: Moment | None = None
    end: Moment | None = None
    jitter_ms: int | None = None
    gap: Gap | None = None
    overlap: Overlap | None = None
    zone: str | None = None


def parse_sentence(text: str, zone: str | None = None) -> Spec:
    """Read a sentence. `zone` is the time zone if the sentence names none.

    Raises InvalidSpec for what is not understood, with the nearest forms, and for what leaves something open.

    >>> [cron.text for cron in parse_sentence("every weekday at 9am").crons]
    ['0 9 * * 1-5']
    """
    reader = Reader(text)
    clauses = [] if reader.take(NO_SOURCES) else _read_clauses(reader)
    tail = _Tail()
    while reader.word and _read_tail(reader, tail):
        pass
    if reader.word or (not clauses and reader.at == 0):
        reader.give_up(zone_labels() if reader.last_understood == "in" else _VOCABULARY, FORMS)
    named = tail.zone or zone
    scope = scope_named(named)
    sources = Sources()
    for clause in clauses:
        build(clause, reader, scope, sources)
    if sources.end is not None and tail.end is not None:
        reader.fail("the schedule ends twice")
    dst = Dst(gap=tail.gap, overlap=tail.overlap) if tail.gap or tail.overlap else None
    return Spec(
        crons=tuple(sources.crons),
        intervals=tuple(sources.intervals),
        rrules=tuple(sources.rrules),
        times=tuple(sources.times),
        excludes=tuple(tail.excludes),
        start=None if tail.start is None else scope.instant(tail.start),
        end=_end(tail.end or sources.end, scope),
        jitter_ms=tail.jitter_ms or 0,
        time_zone=named,
        dst=dst,
    )


def _end(moment: Moment | None, scope: Scope) -> int | None:
    """The last instant; a date includes its whole day."""
    if moment is None or moment.kind is not MomentKind.DATE:
        return None if moment is None else scope.instant(moment)
    return scope.instant(Moment(kind=MomentKind.LOCAL, value=(moment.value + 1) * DAY, text="")) - 1


def _read_clauses(reader: Reader) -> list[Clause]:
    clauses: list[Clause] = []
    after = reader.at
    while (clause := read_clause(reader)) is not None:
        clauses.append(clause)
        after = reader.at
        if len(clauses) > CLAUSES_MAX:
            reader.fail(f"at most {CLAUSES_MAX} parts are read")
        if not reader.take(", and", "; and", ";", "and", ","):
            break
    reader.at = after
    return clauses


# --- what holds for the whole -------------------------------------------------------------------------------


def _read_tail(reader: Reader, tail: _Tail) -> bool:
    place = reader.at
    reader.take(", but", ",", "but")
    if reader.take("except on", "except for", "except"):
        if _read_exclusions(reader, tail):
            return True
    elif tail.start is None and reader.take("beginning on", "beginning"):
        tail.start = read_moment(reader)
        if tail.start is not None:
            return True
    elif tail.end is None and reader.take("ending on", "ending"):
        tail.end = read_moment(reader)
        if tail.end is not None:
            return True
    elif tail.jitter_ms is None and reader.take("delayed by up to", "with up to"):
        tail.jitter_ms = read_milliseconds(reader)
        if tail.jitter_ms is not None:
            reader.take("of jitter")
            return True
    elif tail.gap is None and (gap := next((g for g, said in GAPS.items() if reader.take(said)), None)):
        tail.gap = gap
        return True
    elif tail.overlap is None and (overlap := next((o for o, said in OVERLAPS.items() if reader.take(said)), None)):
        tail.overlap = overlap
        return True
    elif tail.zone is None:
        tail.zone = read_zone(reader)
        if tail.zone is not None:
            return True
    reader.at = place
    return False


def _read_exclusions(reader: Reader, tail: _Tail) -> bool:
    """One exclusion or a list of them."""
    count = len(tail.excludes)
    after = reader.at
    while found := _read_exclusion(reader):
        tail.excludes += found
        after = reader.at
        if len(tail.excludes) > EXCLUSIONS_MAX:
            reader.fail(f"at most {EXCLUSIONS_MAX} exclusions are read")
        if not reader.take(", and", ",", "and"):
            break
        reader.take("except on", "except for", "except", "on")
    reader.at = after
    return len(tail.excludes) > count


def _read_exclusion(reader: Reader) -> list[Exclusion]:
    place = reader.at
    holidays = _read_holidays(reader)
    if holidays is not None:
        return [holidays]
    if reader.take("from"):
        first = read_day(reader)
        last = read_day(reader) if first is not None and reader.take("through", "to", "until") else None
        if first is not None and last is not None:
            if last < first:
                reader.fail("the excluded days end before they begin")
            return [ExcludeDateRange(first=first, last=last)]
        reader.at = place
    day = read_day(reader)
    if day is not None:
        return [ExcludeDates(days=(day, *_read_more_days(reader)))]
    return _read_pattern(reader)


def _read_more_days(reader: Reader) -> list[int]:
    days: list[int] = []
    after = reader.at
    while reader.take(", and", ",", "and") and (day := read_day(reader)) is not None:
        days.append(day)
        after = reader.at
    reader.at = after
    return days


def _read_pattern(reader: Reader) -> list[Exclusion]:
    """Days, times, or both: `on weekends`, `at 12:00 on Fridays`, `in December`."""
    place = reader.at
    mask, days = 0, Days()
    times = read_times(reader, SIXTY)
    if times is not None:
        mask = times.mask if times.period is None else pattern_mask(times.period, SIXTY) or 0
        if not mask:
            reader.fail("an exclusion needs times of day, such as 'from 09:00 through 17:00'")
    days = read_days(reader, dates_recur=True) or read_span(reader, days)
    if times is None and reader.at > place:
        times = read_times(reader, SIXTY)
        mask = _WHOLE_DAY if times is None else times.mask
        if not mask:
            reader.fail("an exclusion needs times of day, such as 'from 09:00 through 17:00'")
    if reader.at == place:
        return []
    return [ExcludeCron(cron=cron) for cron in cron_lines(days, mask, elapsed=False, seconds=SIXTY)]


def _read_holidays(reader: Reader) -> ExcludeHolidays | None:
    """`holidays in Germany`, `bank and public holidays in New York`."""
    place = reader.at
    categories: list[str] = []
    while reader.word.replace("_", "").isalpha() and reader.word not in _NO_CATEGORIES:
        categories.append(reader.word)
        reader.advance()
        reader.take(",", "and")
    if not reader.take("holidays"):
        reader.at = place
        return None
    if not reader.take("in", "of"):
        reader.take("in")
        reader.fail("say whose holidays: 'holidays in Germany' or 'holidays in New York'")
    country = read_country(reader)
    if country is None:
        reader.give_up(frozenset(country_names()), FORMS)
    return ExcludeHolidays(country=country[0], subdivision=country[1], categories=tuple(sorted(categories)))
