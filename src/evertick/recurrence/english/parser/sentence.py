"""Sentences: "every weekday at 9am except holidays in New York" read into a spec. A strict grammar.

It reads what `describe` writes, and synonyms. Nothing is guessed: unknown words and incomplete clauses raise
InvalidSpec with the words and what is allowed in their place.

Invariant: `meaning_of(parse_sentence(describe(spec))) == meaning_of(spec)`. It holds for every spec that compiles,
except for these:

- specs that `describe` describes as "never", and parts of a spec that never fire on their own;
- embedded zone data instead of a zone's name;
- more than 50 single dates in one place, more than 100 sources or exclusions, and sentences of more than
  `TEXT_MAX` characters;
- an EXRULE without an RRULE, or with a COUNT; BYSECOND=60, which is read as 59;
- an RRULE whose sentence needs a DTSTART that the clocks skip.
"""

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.parser.building import Sources, build, cron_lines
from evertick.recurrence.english.parser.clauses import Clause, read_clause
from evertick.recurrence.english.parser.days import read_days, read_span
from evertick.recurrence.english.phrases.clock import SIXTY, pattern_mask, read_times
from evertick.recurrence.english.phrases.dates import read_day, read_milliseconds, read_moment, scope_named
from evertick.recurrence.english.phrases.days import Days
from evertick.recurrence.english.phrases.grammar import GAPS, NEVER_PAST, NO_SOURCES, OVERLAPS
from evertick.recurrence.english.phrases.places import read_country, read_zone, refuse_country, refuse_zone, zone_labels
from evertick.recurrence.english.phrases.reader import TEXT_MAX, Part, Reader
from evertick.recurrence.parse import holidays
from evertick.recurrence.parse.cron import parse_cron
from evertick.recurrence.parse.foreign import refuse_foreign
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Moment, bounded, shown
from evertick.recurrence.spec.spec import Dst, Gap, Overlap, Spec
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import moment_instant

__all__ = ["FORMS", "TEXT_MAX", "parse_sentence", "spec_of_text"]

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
"""Sentences that show the grammar; an error suggests the most similar ones."""

_MORE_WORDS: Final = (
    "sunday tuesday wednesday thursday saturday weekend weekends february march april may june july august september "
    "october november midnight second seconds minute hours daily weekly yearly annually hourly third fourth fifth "
    "other until skipping only times once delayed up to between of falling nearest utc time holidays week year of"
)
_VOCABULARY: Final = frozenset(" ".join(FORMS).lower().replace(",", "").split()) | frozenset(_MORE_WORDS.split())


@dataclass(slots=True)
class _Tail:
    """The parts after the clauses, which apply to all of them."""

    excludes: list[exclude.Exclusion] = field(default_factory=list)
    start: Moment | None = None
    end: Moment | None = None
    jitter_ms: int | None = None
    gap: Gap | None = None
    overlap: Overlap | None = None
    zone: str | None = None


def spec_of_text(text: str, zone: str | None = None, *, default_zone: str | None = None) -> Spec:
    """The spec of a cron line or, for any other text, of a sentence. Holidays are looked up here, once.

    `zone` is the time zone given by the caller, `default_zone` the one of a sentence without a time zone.

    Raises InvalidSpec for an unknown `zone`; for a text that is neither, with both reasons; and for a sentence with
    another zone than `zone`.
    """
    refuse_foreign(bounded(text, "a sentence"))
    if zone is not None:
        zone_named(zone, abbreviations=True)  # an error in `zone` must not be reported as an error in the text
    try:
        return Spec(crons=(parse_cron(text),), time_zone=zone or default_zone)
    except InvalidSpec as problem:
        not_cron = problem
    try:
        spec = parse_sentence(text, zone or default_zone)
    except InvalidSpec as problem:
        raise InvalidSpec(
            f"{shown(text)} is neither a sentence nor a cron line. Read as a sentence: {problem}. "
            f"Read as a cron line: {not_cron}"
        ) from None
    if zone is not None and spec.time_zone != zone:
        raise InvalidSpec(
            f"the sentence {shown(text)} names the time zone {spec.time_zone}, "
            f"but the time zone given with it is {zone}; name one of them"
        )
    return replace(spec, excludes=tuple(_resolved(exclusion) for exclusion in spec.excludes))


def _resolved(exclusion: exclude.Exclusion) -> exclude.Exclusion:
    if not isinstance(exclusion, exclude.Holidays):
        return exclusion
    return holidays.resolve(exclusion.country, exclusion.subdivision, categories=exclusion.categories)


def parse_sentence(text: str, zone: str | None = None) -> Spec:
    """Read a sentence. `zone` is the time zone if the sentence has none.

    Raises InvalidSpec for unknown words, with similar sentences, and for incomplete clauses.

    >>> [cron.text for cron in parse_sentence("every weekday at 9am").crons]
    ['0 9 * * 1-5']
    """
    reader = Reader(text)
    clauses = [] if reader.take(NO_SOURCES) else _read_clauses(reader)
    tail = _Tail()
    while reader.word and _read_tail(reader, tail):
        pass
    if clauses:
        refuse_zone(reader)
    if reader.word or (not clauses and reader.at == 0):
        reader.give_up(zone_labels() if reader.last_understood == "in" else _VOCABULARY, FORMS)
    named = tail.zone or zone
    scope = scope_named(named)
    sources = Sources()
    for clause in clauses:
        build(clause, reader, scope, sources)
    if sources.end is not None and tail.end is not None:
        reader.fail("the schedule ends twice")
    end = tail.end or sources.end
    dst = Dst(gap=tail.gap, overlap=tail.overlap) if tail.gap or tail.overlap else None
    return Spec(
        crons=tuple(sources.crons),
        intervals=tuple(sources.intervals),
        rrules=tuple(sources.rrules),
        times=tuple(sources.times),
        excludes=tuple(tail.excludes),
        start=None if tail.start is None else scope.instant(tail.start),
        end=None if end is None else moment_instant(scope.zone, end, "last"),
        jitter_ms=tail.jitter_ms or 0,
        time_zone=named,
        dst=dst,
    )


def _read_clauses(reader: Reader) -> list[Clause]:
    clauses: list[Clause] = []
    after = reader.at
    while (clause := read_clause(reader)) is not None:
        clauses.append(clause)
        after = reader.at
        if len(clauses) > CLAUSES_MAX:
            reader.fail(f"a sentence has at most {CLAUSES_MAX} parts")
        if not reader.take(", and", "; and", ";", "and", ","):
            break
    reader.at = after
    return clauses


# --- parts of the whole sentence -------------------------------------------------------------------------------


def _read_tail(reader: Reader, tail: _Tail) -> bool:
    place = reader.at
    reader.take(", but", ",", "but")
    if reader.take("except on", "except for", "except"):
        taken = _read_exclusions(reader, tail)
    else:
        taken = reader.part(tail, _OF_ALL)
    if not taken:
        reader.at = place
    return taken


def _read_jitter(reader: Reader) -> int | None:
    jitter = read_milliseconds(reader)
    if jitter is not None:
        reader.take("of jitter")
        reader.take(NEVER_PAST)
    return jitter


_OF_ALL: Final[tuple[Part, ...]] = (
    ("start", ("beginning on", "beginning"), read_moment),
    ("end", ("ending on", "ending"), read_moment),
    ("jitter_ms", ("delayed by up to", "with up to"), _read_jitter),
    ("gap", (), lambda reader: reader.one_of(GAPS)),
    ("overlap", (), lambda reader: reader.one_of(OVERLAPS)),
    ("zone", (), read_zone),
)


def _read_exclusions(reader: Reader, tail: _Tail) -> bool:
    """One exclusion or a list of them."""

    def exclusion(reader: Reader) -> list[exclude.Exclusion] | None:
        reader.take("except on", "except for", "except", "on")
        return _read_exclusion(reader) or None

    found = reader.listed(exclusion)
    tail.excludes += chain.from_iterable(found)
    if len(tail.excludes) > EXCLUSIONS_MAX:
        reader.fail(f"a sentence has at most {EXCLUSIONS_MAX} exclusions")
    return bool(found)


def _read_exclusion(reader: Reader) -> list[exclude.Exclusion]:
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
            return [exclude.DateRange(first=first, last=last)]
        reader.at = place
    days = reader.listed(read_day)
    return [exclude.Dates(days=tuple(days))] if days else _read_pattern(reader)


def _read_pattern(reader: Reader) -> list[exclude.Exclusion]:
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
    return [exclude.Cron(cron=cron) for cron in cron_lines(days, mask, elapsed=False, seconds=SIXTY)]


def _read_holidays(reader: Reader) -> exclude.Holidays | None:
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
        if not reader.left:
            reader.give_up(frozenset(), FORMS)
        refuse_country(reader)
    return exclude.Holidays(country=country[0], subdivision=country[1], categories=tuple(sorted(categories)))
