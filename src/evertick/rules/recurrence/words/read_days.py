"""Reading days: the phrases that `days` writes, and their synonyms."""

from dataclasses import dataclass, field, replace
from typing import Final

from evertick.rules.recurrence.fields import values_of
from evertick.rules.recurrence.source import WEEKDAYS
from evertick.rules.recurrence.words.dates import month_named
from evertick.rules.recurrence.words.days import EACH_DAY, MONTHS_ALL, WEEK, WEEKEND, WORKDAYS, Days, say_month_days
from evertick.rules.recurrence.words.english import joined, ordinal, read_ordinal
from evertick.rules.recurrence.words.reader import Reader

YEAR_FIRST: Final = 1970
YEAR_LAST: Final = 2199


@dataclass(slots=True)
class _Group:
    """One list of days as it is read, before it is known what its numbers count within."""

    numbers: list[int] = field(default_factory=list)
    nearest: list[int] = field(default_factory=list)
    weekdays: int = 0
    nths: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.numbers or self.nearest or self.weekdays or self.nths)


def read_days(reader: Reader, *, dates_recur: bool = False) -> Days | None:
    """A phrase of days, with its months and years. None, and no word taken, for anything else.

    A date without a year (`1 January`) needs "every year" behind it, unless `dates_recur`.
    """
    place = reader.at
    days: Days | None = None
    if not reader.comes(EACH_DAY) and reader.take("every day", "each day", "daily"):
        days = Days(every_month=reader.take("of the month", "of every month"))
    elif reader.take("every", "each"):
        days = _read_every(reader)
    elif reader.take("on") or _is_list(reader) or dates_recur:
        days = _read_dates(reader, dates_recur=dates_recur) or _read_chain(reader)
    if days is None:
        reader.at = place
        return None
    return read_span(reader, days)


# --- months and years ---------------------------------------------------------------------------------------


def read_span(reader: Reader, days: Days) -> Days:
    """Months and years behind a phrase of days, as far as there are any."""
    while True:
        place = reader.at
        if not days.every_month and reader.take("of every month", "of each month", "of the month", "every month"):
            days = replace(days, every_month=True)
        elif reader.take("in every", "every", "each"):
            years = _read_every_year(reader)
            if years is None or (years and days.years):
                reader.at = place
                return days
            days = replace(days, years=years or days.years)
        elif reader.take("in", "of", "from"):
            months = _read_months(reader)
            years = read_years(reader) if months is None else None
            if months is None and years is None:
                reader.at = place
                return days
            if (months and days.months != MONTHS_ALL) or (years and days.years):
                reader.fail("months, or years, are named twice; make one list of them")
            days = replace(days, months=months or days.months, years=years or days.years)
        else:
            return days


def read_years(reader: Reader) -> int | None:
    """`2026`, `2026 through 2028`, `2026, 2027 and 2030` as a mask."""
    mask, after = 0, reader.at
    while first := _read_year(reader):
        last = _read_year(reader) if reader.take("through", "to") else first
        if last is None or last < first:
            break
        mask |= (2 << last) - (1 << first)
        after = reader.at
        if not reader.take(", and", ",", "and"):
            break
    reader.at = after
    return mask or None


def _read_year(reader: Reader) -> int | None:
    word = reader.word
    if len(word) == 4 and word.isascii() and word.isdigit() and YEAR_FIRST <= int(word) <= YEAR_LAST:
        reader.advance()
        return int(word)
    return None


def _read_every_year(reader: Reader) -> int | None:
    """After "every": `year` and `leap year` (0, no limit), or `4th year from 2022 through 2098`."""
    if reader.take("year", "leap year"):
        return 0
    step = read_ordinal(reader.word)
    if step and step > 0 and reader.peek() == "year":
        reader.advance(2)
        first = _read_year(reader) if reader.take("from") else None
        last = _read_year(reader) if first and reader.take("through", "to") else None
        if first and last:
            return sum(1 << year for year in range(first, last + 1, step))
    return None


def _read_months(reader: Reader) -> int | None:
    mask, after = 0, reader.at
    while first := _read_month(reader):
        last = _read_month(reader) if reader.take("through", "to") else first
        if last is None:
            break
        for month in range(first, last + 1 if last >= first else last + 13):
            mask |= 1 << (month - 1) % 12 + 1
        after = reader.at
        if not reader.take(", and", ",", "and"):
            break
    reader.at = after
    return mask or None


def _read_month(reader: Reader) -> int | None:
    month = month_named(reader.word)
    if month is not None:
        reader.advance()
    return month


# --- days ---------------------------------------------------------------------------------------------------


def weekday_named(word: str) -> int | None:
    """Sunday = 0 for `sunday`, `sundays`, `sun`; None for any other word."""
    single = word.removesuffix("s") if len(word) > 4 else word
    for number, name in enumerate(WEEKDAYS):
        lower = name.lower()
        if single in (lower, lower[:3]) or (word in ("tues", "thurs", "thur") and lower.startswith(word)):
            return number
    return None


def _read_every(reader: Reader) -> Days | None:
    """After "every": `weekday`, `Monday and Friday`, `Friday the 13th`, `2nd day of the month`."""
    weekday = weekday_named(reader.word)
    if weekday is not None and reader.peek() == "the":
        reader.advance(2)
        day = read_ordinal(reader.word)
        if day is None or not 1 <= day <= 31:
            return None
        reader.advance()
        return Days(weekdays=1 << weekday, month_days=1 << day)
    step = _read_step(reader)
    if step is not None:
        return Days(month_days=step)
    group = _read_list(reader)
    if group is None or group.numbers or group.nearest:
        return None
    return Days(weekdays=group.weekdays, nths=_merged((), group.nths))


def _read_step(reader: Reader) -> int | None:
    """`2nd day of the month (1st, 3rd, 5th ...)` as a mask; what stands in brackets must agree."""
    step = read_ordinal(reader.word)
    if not step or not 2 <= step <= 30 or reader.peek() != "day" or reader.peek(2) != "of":
        return None
    reader.advance(2)
    reader.take("of the month", "of every month")
    mask = sum(1 << day for day in range(1, 32, step))
    if reader.take("("):
        said = say_month_days(Days(month_days=mask)).partition("(")[2]
        if not (said and reader.take(said.replace(",", " ,").replace(")", " )"))):
            listed = joined([ordinal(day) for day in values_of(mask)])
            reader.fail(f"every {ordinal(step)} day of the month is {listed}")
    return mask


def _is_list(reader: Reader) -> bool:
    """Whether a list of days comes next without "on": `last Friday`, `the 1st`, `Mondays`."""
    word = reader.word
    if weekday_named(word) is not None or word in ("weekdays", "weekends"):
        return True
    word = reader.peek() if word == "the" else word
    return read_ordinal(word) is not None


def _read_dates(reader: Reader, *, dates_recur: bool) -> Days | None:
    """`1 January every year`, `24 through 26 December in 2026`, `24-26 December`, `January 1`."""
    place = reader.at
    month = _read_month(reader)
    mask = _read_date_numbers(reader)
    if mask and month is None:
        reader.take("of")
        month = _read_month(reader)
    after = reader.at
    if not mask or month is None:
        reader.at = place
        return None
    if reader.take(",", "and") and month_named(reader.word):
        reader.at = place
        return None  # the 1st of January and July: days of several months
    here = reader.at = after
    days = Days(month_days=mask, months=1 << month)
    spanned = read_span(reader, days)
    if spanned.years is None and reader.at == here and not dates_recur:
        if not reader.comes("yearly", "annually"):
            reader.take("every year", "in")
            reader.fail("a date without a year needs 'every year' behind it")
        reader.advance()
    return spanned


def _read_date_numbers(reader: Reader) -> int:
    mask, after = 0, reader.at
    while True:
        reader.take("the")
        first_word, dash, last_word = reader.word.partition("-")
        first = last = _day_number(first_word)
        if first is None:
            break
        if dash:
            last = _day_number(last_word)
        reader.advance()
        if not dash and reader.take("through", "to"):
            last = _day_number(reader.word)
            reader.advance()
        if last is None or last < first:
            break
        mask |= (2 << last) - (1 << first)
        after = reader.at
        if not reader.take(", and", ",", "and"):
            break
    reader.at = after
    return mask


def _day_number(word: str) -> int | None:
    if word.isascii() and word.isdigit() and len(word) <= 2:
        number: int | None = int(word)
    else:
        number = None if word.isalpha() else read_ordinal(word)
    return number if number is not None and 1 <= number <= 31 else None


def _read_chain(reader: Reader) -> Days | None:
    """Lists of days, joined by "and on" (either matches) or by "falling on" (all must)."""
    days = _joined_group(reader, Days())
    if days is None:
        return None
    while True:
        place = reader.at
        either = reader.take("and on", ", and on")
        if not either and not reader.take("falling on", "that fall on", "that falls on"):
            return days
        more = _joined_group(reader, days)
        if more is None:
            reader.at = place
            return days
        both = more.by_weekday and (more.by_month_day or more.year_days)
        days = replace(more, either=bool(both and (either or more.either)))


def _joined_group(reader: Reader, days: Days) -> Days | None:
    """One list and what its numbers count within, added to `days`."""
    place = reader.at
    if reader.take("every") and (step := _read_step(reader)):
        return replace(days, month_days=days.month_days | step)
    reader.at = place
    if reader.take("a day of weeks", "a day of week"):
        return replace(days, weeks=read_weeks(reader))
    if reader.take("a day") and (week := _read_week_from_the_end(reader)):
        return replace(days, weeks=(week,))
    reader.at = place
    group = _read_list(reader)
    if group is None:
        return None
    mixed = bool((group.numbers or group.nearest) and (group.weekdays or group.nths))
    days = replace(
        days, weekdays=days.weekdays | group.weekdays, nths=_merged(days.nths, group.nths), either=days.either or mixed
    )
    if (group.numbers or group.nths) and reader.take("of the year"):
        if group.nths and not group.numbers:
            return replace(days, of_year=True)
        return replace(days, year_days=tuple(sorted({*days.year_days, *group.numbers})))
    if any(not -31 <= number <= 31 for number in group.numbers):
        reader.fail("a month has at most 31 days; a day of the year is the 200th day 'of the year'")
    mask = days.month_days
    for number in group.numbers:
        mask |= 1 << number if number > 0 else 0
    last_days = {*days.last_days, *(-number for number in group.numbers if number < 0)}
    nearest = {*days.nearest, *group.nearest}
    days = replace(days, month_days=mask, last_days=tuple(sorted(last_days)), nearest=tuple(sorted(nearest)))
    if (group.weekdays or group.nths) and reader.take("of weeks", "of week"):
        days = replace(days, weeks=read_weeks(reader))
    elif (group.weekdays or group.nths) and (week := _read_week_from_the_end(reader)):
        days = replace(days, weeks=(week,))
    return days


def _read_week_from_the_end(reader: Reader) -> int | None:
    """`of the last week`; None, and no word taken, for anything else."""
    place = reader.at
    if reader.take("of the"):
        number = read_ordinal(reader.word)
        if number is not None and number < 0 and reader.peek() == "week":
            reader.advance(2)
            return number
    reader.at = place
    return None


def read_weeks(reader: Reader) -> tuple[int, ...]:
    """`20`, `1, 20 and the last`: numbers of weeks."""
    weeks: set[int] = set()
    while True:
        reader.take("the")
        number = read_ordinal(reader.word)
        if number is not None:
            reader.advance()
        else:
            number = reader.number()
        if number is None or not 1 <= abs(number) <= 53:
            reader.fail("weeks of a year are 1 to 53, or such as 'the last'")
        weeks.add(number)
        if not reader.take(", and", ",", "and"):
            return tuple(sorted(weeks))


def _merged(old: tuple[tuple[int, int], ...], new: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({*old, *new}))


def _read_list(reader: Reader) -> _Group | None:
    """`Mondays, Fridays and the first Sunday`, `the 1st through 7th, 15th and last day`. None if no list comes."""
    group, after = _Group(), reader.at
    while _read_item(reader, group):
        after = reader.at
        if not reader.take(", and", ",", "and"):
            break
    reader.at = after
    return None if group.is_empty else group


def _read_item(reader: Reader, group: _Group) -> bool:
    for phrase, mask in (("weekdays", WORKDAYS), ("weekday", WORKDAYS), ("weekends", WEEKEND), ("weekend", WEEKEND)):
        if reader.word == phrase and reader.peek() != "nearest" and reader.take(phrase):
            group.weekdays |= mask
            return True
    if reader.take(EACH_DAY):
        group.weekdays |= WEEK
        return True
    weekday = weekday_named(reader.word)
    if weekday is not None:
        reader.advance()
        group.weekdays |= 1 << weekday
        return True
    reader.take("the")
    if reader.take("weekday nearest to the", "weekday nearest the", "nearest weekday to the"):
        return _read_nearest(reader, group)
    return _read_numbered(reader, group)


def _read_nearest(reader: Reader, group: _Group) -> bool:
    number = read_ordinal(reader.word)
    if number is None or not 1 <= abs(number) <= 31:
        return False
    reader.advance()
    reader.take("day")
    group.nearest.append(number)
    return True


def _read_numbered(reader: Reader, group: _Group) -> bool:
    """`first Monday`, `last day`, `last weekday`, `1st`, `1st through 7th`, `2nd-to-last day`."""
    number = read_ordinal(reader.word)
    if number is None:
        reader.take("weekdays", "Monday")
        return False
    word = reader.word
    reader.advance()
    weekday = weekday_named(reader.word)
    if weekday is not None:
        reader.advance()
        group.nths.append((weekday, number))
        return True
    if number == -1 and reader.take("weekday"):
        group.nearest.append(-1)
        return True
    if reader.take("through", "to"):
        reader.take("the")
        last = read_ordinal(reader.word)
        if last is None or not 0 < number <= last <= 366:
            return False
        reader.advance()
        group.numbers += range(number, last + 1)
    elif reader.take("day") or word[0].isdigit():
        group.numbers.append(number)
    else:
        return _read_shared_weekday(reader, group, number)
    reader.take("day")
    return True


def _read_shared_weekday(reader: Reader, group: _Group, number: int) -> bool:
    """`first and third Monday`: the ordinals share the weekday behind the last of them."""
    numbers = [number]
    while reader.take(", and", ",", "and"):
        reader.take("the")
        following = read_ordinal(reader.word)
        if following is None:
            return False
        numbers.append(following)
        reader.advance()
    weekday = weekday_named(reader.word)
    if weekday is not None:
        reader.advance()
        group.nths += [(weekday, number) for number in numbers]
        return True
    if reader.take("day"):
        group.numbers += numbers
        return True
    return False
