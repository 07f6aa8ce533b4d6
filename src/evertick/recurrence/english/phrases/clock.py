"""Times of day in words: `at 09:00 and 17:00`, `every 15 minutes from 09:00 through 17:45`.

A set of times is the product of some hours, minutes and seconds, as in crons; sets that are read become one mask of the
day's 86,400 seconds. A phrase also implies the behaviour at a clock change: listed times are *fixed*, patterns
(`every 15 minutes`) are *elapsed*, they follow real time. `Phrase.elapsed` says which of the two a phrase implies.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from evertick.recurrence.english.phrases.dates import (
    UNITS,
    is_clock,
    month_named,
    read_clock,
    read_duration,
    unit_named,
    weekday_named,
)
from evertick.recurrence.english.phrases.grammar import joined, ordinal, runs, said_runs
from evertick.recurrence.english.phrases.reader import Reader, attempt
from evertick.recurrence.spec.civil import mask_of_values, united, values_of

# -- Sets of times of day: products of hours, minutes and seconds, and masks of the day's 86,400 seconds.

HOURS_ALL: Final = (1 << 24) - 1
SIXTY: Final = (1 << 60) - 1
ON_THE_MINUTE: Final = 1
"""The seconds of a time that is written without seconds: only second 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Hours x minutes x seconds as masks; `elapsed` when they follow real time across clock changes."""

    hours: int
    minutes: int
    seconds: int
    elapsed: bool = False

    @property
    def mask(self) -> int:
        """The times as one mask of the day's seconds."""
        return product(self.hours, self.minutes, self.seconds)


def product(hours: int, minutes: int, seconds: int) -> int:
    """The mask of the day's seconds for a product of hours, minutes and seconds."""
    hour = day = 0
    for minute in values_of(minutes):
        hour |= seconds << 60 * minute
    for number in values_of(hours):
        day |= hour << 3_600 * number
    return day


def products(mask: int) -> list[tuple[int, int, int]]:
    """A mask of the day's seconds as a short list of products of hours, minutes and seconds."""
    found: list[tuple[int, int, int]] = []
    for hour, hours in _alike(mask, 3_600, 24):
        found += [(hours, minutes, seconds) for seconds, minutes in _alike(hour, 60, 60)]
    return found


def _alike(mask: int, width: int, count: int) -> list[tuple[int, int]]:
    groups: dict[int, int] = {}
    whole = (1 << width) - 1
    for number in range(count):
        part = mask >> width * number & whole
        if part:
            groups[part] = groups.get(part, 0) | 1 << number
    return list(groups.items())


def even_step(mask: int, size: int) -> int | None:
    """The step of 0, n, 2n, ... that divides `size` and has at least two members; None for any other set."""
    values = values_of(mask)
    if len(values) < 2 or values[0] or size % values[1]:
        return None
    step = values[1]
    return step if values == list(range(0, size, step)) else None


def progression(values: list[int]) -> int | None:
    """The step of three or more numbers with equal distances; None for any other list."""
    if len(values) < 3:
        return None
    step = values[1] - values[0]
    return step if all(b - a == step for a, b in pairwise(values)) else None


def pattern_mask(period: int, implied: int = ON_THE_MINUTE) -> int | None:
    """The times of `every 5 minutes` or `every hour` as in a cron; None if no cron can express it."""
    if period < 60 and 60 % period == 0:
        return product(HOURS_ALL, SIXTY, every(period, 60))
    if period % 60 == 0 and 3_600 % period == 0:
        return product(HOURS_ALL, every(period // 60, 60), implied)
    if period % 3_600 == 0 and 86_400 % period == 0:
        return product(every(period // 3_600, 24), 1, implied)
    return None


def every(step: int, size: int) -> int:
    """0, `step`, 2 `step`, ... below `size`, as a mask."""
    return mask_of_values(range(0, size, step))


LISTED_MAX: Final = 12
"""The number of times that are listed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A phrase, whether it implies elapsed times, and whether it needs days."""

    text: str
    elapsed: bool
    listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTimes:
    """The times of a phrase: a mask, or with `period` only an interval in seconds.

    `unit` is the unit of a period with a single unit; `listed` times need days.
    """

    mask: int = 0
    elapsed: bool = False
    period: int | None = None
    unit: str | None = None
    listed: bool = False


# --- saying -------------------------------------------------------------------------------------------------


def say_times(times: Times, implied: int = ON_THE_MINUTE) -> Phrase:
    """The phrase for a set of times. `implied`: the seconds that need not be written."""
    hours, minutes, seconds = values_of(times.hours), values_of(times.minutes), values_of(times.seconds)
    if times.seconds == implied:
        return _say_minutes(times, hours, minutes)
    step = even_step(times.seconds, 60)
    if step and times.minutes == SIXTY and len(runs(hours, 1)) == 1:
        unit = "every second" if step == 1 else f"every {step} seconds"
        if times.hours == HOURS_ALL:
            return Phrase(text=unit, elapsed=True)
        last = f"{hours[-1]:02d}:59:{seconds[-1]:02d}"
        return Phrase(text=f"{unit} from {hours[0]:02d}:00:00 through {last}", elapsed=True)
    if len(hours) * len(minutes) * len(seconds) <= LISTED_MAX:
        clocks = [
            f"{h:02d}:{m:02d}" + (f":{s:02d}" if s or implied != ON_THE_MINUTE else "")
            for h in hours for m in minutes for s in seconds
        ]  # fmt: skip
        return Phrase(text=f"at {joined(clocks)}", elapsed=False, listed=True)
    rest = _say_minutes(times, hours, minutes)
    said = joined(said_runs(seconds))
    unit = "second" if said == "1" else "seconds"
    return Phrase(text=f"at {said} {unit} past the minute, {rest.text}", elapsed=rest.elapsed, listed=rest.listed)


def _say_minutes(times: Times, hours: list[int], minutes: list[int]) -> Phrase:
    step = even_step(times.minutes, 60)
    if step:
        unit = "every minute" if step == 1 else f"every {step} minutes"
        if times.hours == HOURS_ALL:
            return Phrase(text=unit, elapsed=True)
        if len(runs(hours, 1)) == 1:
            last = f"{hours[-1]:02d}:{minutes[-1]:02d}"
            return Phrase(text=f"{unit} from {hours[0]:02d}:00 through {last}", elapsed=True)
        if times.elapsed or len(hours) * len(minutes) > LISTED_MAX:
            return Phrase(text=f"{unit} of {_say_hours(times.hours)[0]}", elapsed=True)
    if len(minutes) == 1 and (said := _say_hourly(times, hours, minutes[0])):
        return said
    if len(hours) * len(minutes) <= LISTED_MAX:
        clocks = [f"{h:02d}:{m:02d}" for h in hours for m in minutes]
        return Phrase(text=f"at {joined(clocks)}", elapsed=False, listed=True)
    past, elapsed = _say_hours(times.hours)
    return Phrase(text=f"at {_say_past(minutes)} past {past}", elapsed=elapsed)


def _say_hourly(times: Times, hours: list[int], minute: int) -> Phrase | None:
    """The phrase for one minute of many hours; None if the times have to be listed."""
    if times.hours == HOURS_ALL:
        text = f"at {_say_past([minute])} past every hour" if minute else "every hour, on the hour"
        return Phrase(text=text, elapsed=True)
    step = even_step(times.hours, 24)
    if step and times.elapsed:
        place = f"at {_say_past([minute])} past the hour" if minute else "on the hour"
        return Phrase(text=f"every {step} hours, {place}", elapsed=True)
    step = progression(hours)
    if step is None or (step > 1 and len(hours) == 3):
        return None
    unit = "every hour" if step == 1 else f"every {step} hours"
    return Phrase(text=f"{unit} from {hours[0]:02d}:{minute:02d} through {hours[-1]:02d}:{minute:02d}", elapsed=False)


def _say_past(minutes: list[int]) -> str:
    said = joined(said_runs(minutes))
    return f"{said} minute" if said == "1" else f"{said} minutes"


def _say_hours(mask: int) -> tuple[str, bool]:
    hours = values_of(mask)
    if mask == HOURS_ALL:
        return "every hour", True
    if step := even_step(mask, 24):
        return f"every {ordinal(step)} hour", False
    if len(hours) >= 3 and len(runs(hours)) == 1:
        return f"each hour from {hours[0]:02d}:00 through {hours[-1]:02d}:00", False
    return f"{'hour' if len(hours) == 1 else 'hours'} {joined(said_runs(hours))}", False


# --- reading ------------------------------------------------------------------------------------------------


@attempt
def read_times(reader: Reader, implied: int = ON_THE_MINUTE) -> ReadTimes | None:
    """Read a phrase of times. None, without consuming a word, for anything else."""
    if reader.take("at"):
        return _read_past(reader, implied) or _read_listed(reader, implied)
    if reader.take("hourly"):
        return ReadTimes(period=3_600, unit="hour", elapsed=True)
    if reader.take("every", "each"):
        period, unit = _read_period(reader)
        return None if period is None else _read_patterned(reader, period, unit, implied)
    return _read_listed(reader, implied) if is_clock(reader) else None


@attempt
def _read_past(reader: Reader, implied: int) -> ReadTimes | None:
    """After "at": `15 and 45 minutes past every hour`, `30 seconds past the minute, every 5 minutes`."""
    numbers = read_numbers(reader, 59)
    if numbers and reader.take("seconds past the minute", "second past the minute"):
        reader.take(",")
        rest = read_times(reader, numbers) if not reader.comes("at") or reader.peek(2) != "seconds" else None
        if rest is not None and rest.period is not None:
            mask = pattern_mask(rest.period, numbers) if rest.period % 60 == 0 else None
            rest = None if mask is None else ReadTimes(mask=mask, elapsed=True)
        if rest is None:
            reader.fail("after the seconds past the minute, say of which minutes, such as 'every 5 minutes'")
        return rest
    hours = _read_hours(reader) if numbers and reader.take("minutes past", "minute past") else None
    return None if hours is None else ReadTimes(mask=product(hours[0], numbers, implied), elapsed=hours[1])


def _read_listed(reader: Reader, implied: int) -> ReadTimes | None:
    """`09:00, 12:00 and 17:30`."""

    def clock(reader: Reader) -> int | None:
        reader.take("at")
        found = read_clock(reader)
        return None if found is None else (1 if found[1] else implied) << found[0]

    mask = united(reader.listed(clock))
    if not mask and reader.word.isdigit():
        reader.fail(f"at {reader.word[:9]}: morning or evening? Write 09:00, 9am or 9pm")
    return ReadTimes(mask=mask, listed=True) if mask else None


def one_clock(times: ReadTimes | None) -> int | None:
    """The second of the day if the phrase lists exactly one time of day; else None."""
    if times is None or not times.listed or times.mask.bit_count() != 1:
        return None
    return times.mask.bit_length() - 1


def read_numbers(reader: Reader, highest: int) -> int:
    """A list of small numbers, `0, 15 and 30 through 40`, as a mask. 0, without consuming a word, for anything else."""
    return reader.runs(Reader.number, highest)


_EACH_OR_OTHER: Final = (
    "each second, or every other one? Write 'every second on Tuesdays' for each second; for the others "
    "'every 2 weeks on Tuesday at 9am starting 6 January 2026' or 'on the second Tuesday of each month at 9am'"
)


def _read_period(reader: Reader) -> tuple[int | None, str | None]:
    """Read the period after "every": `minute`, `other hour`, `15 minutes`, `5 hours and 15 minutes`; not days."""
    unit = unit_named(reader.word)
    if unit in ("second", "minute", "hour"):
        word = reader.word
        reader.advance()
        if word == "second" and (weekday_named(reader.word) is not None or month_named(reader.word) is not None):
            reader.fail(_EACH_OR_OTHER)  # most people read "every second Tuesday" as every other Tuesday
        return UNITS[unit], unit
    unit = unit_named(reader.peek())
    if reader.comes("other") and unit in ("second", "minute", "hour"):
        reader.advance(2)
        return 2 * UNITS[unit], unit
    place = reader.at
    period = read_duration(reader)
    single = reader.at == place + 2
    if period is not None and single and unit in ("day", "week"):
        reader.at = place
        return None, None
    if period == 0:
        reader.fail("an interval must be at least one second")
    return period, unit if single else None


def _read_patterned(reader: Reader, period: int, unit: str | None, implied: int) -> ReadTimes:
    """Read the optional part after a period: `on the hour`, `from 09:00 through 17:45`, `of hours 9 and 11`."""
    place = reader.at
    reader.take(",")
    hourly = period % 3_600 == 0 and 86_400 % period == 0
    if hourly and reader.take("on the hour"):
        return ReadTimes(mask=product(every(period // 3_600, 24), 1, implied), elapsed=True)
    if hourly and reader.take("at"):
        minutes = read_numbers(reader, 59)
        if minutes and reader.take("minutes past the hour", "minute past the hour"):
            return ReadTimes(mask=product(every(period // 3_600, 24), minutes, implied), elapsed=True)
    reader.at = place
    if period % 60 == 0 and 3_600 % period == 0 and reader.take("of"):
        hours = _read_hours(reader)
        if hours is not None:
            return ReadTimes(mask=product(hours[0], every(period // 60, 60), implied), elapsed=True)
        reader.at = place
    return read_window(reader, period, implied) or ReadTimes(period=period, unit=unit, elapsed=True)


@attempt
def read_window(reader: Reader, period: int, implied: int = ON_THE_MINUTE) -> ReadTimes | None:
    """`from 9am to 5pm`, `between 9:00 and 17:00`: every `period` seconds within, both ends included."""
    between = reader.take("between")
    first = read_clock(reader) if between or reader.take("from") else None
    if first and (reader.take("and") if between else reader.take("through", "to", "until")):
        last = read_clock(reader)
        if last:
            return _window(reader, period, first[0], last[0], implied)
    return None


def _window(reader: Reader, period: int, first: int, last: int, implied: int) -> ReadTimes:
    if last < first:
        reader.fail("the hours end before they begin; write two sentences joined by ', and'")
    timed = first % 60 or last % 60 or period % 60
    count = (last - first) // period + 1
    repeated = ((1 << period * count) - 1) // ((1 << period) - 1)
    mask = (repeated if timed else repeated * implied) << first
    even = period < 3_600 and 3_600 % period == 0 and (60 % period == 0 or period % 60 == 0)
    return ReadTimes(mask=mask, elapsed=even and first % 3_600 == 0 and (last + period) % 3_600 == 0)


@attempt
def _read_hours(reader: Reader) -> tuple[int, bool] | None:
    """`every hour`, `every 2nd hour`, `each hour from 09:00 through 17:00`, `hours 9 and 11`; and whether elapsed."""
    place = reader.at
    if reader.take("each hour from", "every hour from"):
        first = read_clock(reader)
        last = read_clock(reader) if first and reader.take("through", "to", "until") else None
        if first and last and first[0] <= last[0]:
            return (2 << last[0] // 3_600) - (1 << first[0] // 3_600), False
        reader.at = place
    if reader.take("every hour", "each hour"):
        return HOURS_ALL, True
    if reader.take("every"):
        step = reader.ordinal()
        return (every(step, 24), False) if step and step > 0 and 24 % step == 0 and reader.take("hour") else None
    hours = read_numbers(reader, 23) if reader.take("hours", "hour") else 0
    return (hours, False) if hours else None
