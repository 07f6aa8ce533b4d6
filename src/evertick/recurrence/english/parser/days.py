"""Reading days: the phrases that `days` writes, and their synonyms."""

from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from evertick.recurrence.english.phrases.dates import month_named, weekday_named
from evertick.recurrence.english.phrases.days import EACH_DAY, MONTHS_ALL, WEEK, WEEKEND, WORKDAYS, Days, say_month_days
from evertick.recurrence.english.phrases.grammar import joined, ordinal, read_ordinal
from evertick.recurrence.english.phrases.reader import Reader, attempt
from evertick.recurrence.spec.civil import mask_of_values, united, values_of

YEAR_FIRST: Final = 1970
YEAR_LAST: Final = 2199

T = TypeVar("T", int, tuple[int, int])


@dataclass(slots=True)
class _Group:
    """One list of days while it is read, before the unit of its numbers (month or year) is known."""

    numbers: list[int] = field(default_factory=list)
    nearest: list[int] = field(default_factory=list)
    weekdays: int = 0
    nths: list[tuple[int, int]] = field(default_factory=list)


@attempt
def read_days(reader: Reader, *, dates_recur: bool = False) -> Days | None:
    """Read a phrase of days with its months and years. None, without consuming a word, for anything else.

    A date without a year (`1 January`) needs a following "every year", unless `dates_recur`.
    """
    days: Days | None = None
    if not reader.comes(EACH_DAY) and reader.take("every day", "each day", "daily"):
        days = _read_from(reader) or Days(every_month=reader.take("of the month", "of every month"))
    elif reader.comes("from"):
        days = _read_from(reader)
    elif reader.take("every", "each"):
        days = _read_every(reader)
        if days is not None and days.by_month_day and not days.by_weekday:  # every 2nd day of the month, and on Sundays
            days = _read_further(reader, days)
    elif reader.take("on") or _is_list(reader) or dates_recur:
        days = _read_dates(reader, dates_recur=dates_recur) or _read_chain(reader)
    return None if days is None else read_span(reader, days)


# --- months and years ---------------------------------------------------------------------------------------


def read_span(reader: Reader, days: Days) -> Days:
    """Read the months and years after a phrase of days, if there are any."""
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
            months = reader.runs(_read_month, wrap=12)
            years = 0 if months else reader.runs(_read_year)
            if not months and not years:
                reader.at = place
                return days
            if (months and days.months != MONTHS_ALL) or (years and days.years):
                reader.fail("months, or years, are named twice; make one list of them")
            days = replace(days, months=months or days.months, years=years or days.years)
        else:
            return days


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
            return mask_of_values(range(first, last + 1, step))
    return None


def _read_month(reader: Reader) -> int | None:
    return reader.known(month_named)


# --- days ---------------------------------------------------------------------------------------------------


def read_weekday(reader: Reader) -> int | None:
    """Read the name of a weekday; None, without consuming a word, for any other word."""
    return reader.known(weekday_named)


@attempt
def _read_week_run(reader: Reader) -> int | None:
    """`Monday through Saturday`, `Mondays to Fridays`, `Mon-Fri`, `Friday to Monday` as a mask."""
    first, dash, last = _dashed(reader.word)
    if dash:
        begin, end = weekday_named(first), weekday_named(last)
        if begin is not None and end is not None:
            reader.advance()
    else:
        begin = read_weekday(reader)
        end = read_weekday(reader) if begin is not None and reader.take("through", "to", "-", "\N{EN DASH}") else None
    if begin is None or end is None:
        return None
    if begin == end:
        reader.fail("days that begin and end on the same day of the week; say 'every day', or name that day alone")
    return mask_of_values((begin + day) % 7 for day in range((end - begin) % 7 + 1))


def _dashed(word: str) -> tuple[str, str, str]:
    """The parts of `mon-fri` and the dash; an empty dash for other words."""
    return word.replace("\N{EN DASH}", "-").partition("-") if word[:1].isalpha() else (word, "", "")


@attempt
def _read_from(reader: Reader) -> Days | None:
    """`from Monday to Saturday`."""
    weekdays = _read_week_run(reader) if reader.take("from") else None
    return None if weekdays is None else Days(weekdays=weekdays)


def _read_every(reader: Reader) -> Days | None:
    """After "every": `weekday`, `Monday and Friday`, `Friday the 13th`, `2nd day of the month`."""
    weekday = weekday_named(reader.word)
    if weekday is not None and reader.peek() == "the":
        reader.advance(2)
        day = reader.ordinal()
        return Days(weekdays=1 << weekday, month_days=1 << day) if day is not None and 1 <= day <= 31 else None
    step = _read_step(reader)
    if step is not None:
        return Days(month_days=step)
    group = _read_list(reader)
    if group is None or group.numbers or group.nearest:
        return None
    return Days(weekdays=group.weekdays, nths=_merged((), group.nths))


def _read_step(reader: Reader) -> int | None:
    """`2nd day of the month (1st, 3rd, 5th ...)` as a mask. The list in brackets must match."""
    step = read_ordinal(reader.word)
    if not step or not 2 <= step <= 30 or reader.peek() != "day" or reader.peek(2) != "of":
        return None
    reader.advance(2)
    reader.take("of the month", "of every month")
    mask = mask_of_values(range(1, 32, step))
    if reader.take("("):
        said = say_month_days(Days(month_days=mask)).partition("(")[2]
        if not (said and reader.take(said.replace(",", " ,").replace(")", " )"))):
            listed = joined([ordinal(day) for day in values_of(mask)])
            reader.fail(f"every {ordinal(step)} day of the month is {listed}")
    return mask


def _is_list(reader: Reader) -> bool:
    """Whether a list of days comes next without "on": `last Friday`, `the 1st`, `Mondays`."""
    word = reader.word
    if weekday_named(_dashed(word)[0]) is not None or word in ("weekdays", "weekends"):
        return True
    return read_ordinal(reader.peek() if word == "the" else word) is not None


@attempt
def _read_dates(reader: Reader, *, dates_recur: bool) -> Days | None:
    """`1 January every year`, `24 through 26 December in 2026`, `24-26 December`, `January 1`."""
    month = _read_month(reader)
    mask = united(reader.listed(_read_date_numbers))
    if mask and month is None:
        reader.take("of")
        month = _read_month(reader)
    after = reader.at
    if not mask or month is None or (reader.take(",", "and") and month_named(reader.word)):
        return None  # also for "the 1st of January and July": days of several months
    reader.at = after
    spanned = read_span(reader, Days(month_days=mask, months=1 << month))
    if spanned.years is None and reader.at == after and not dates_recur:
        if not reader.comes("yearly", "annually"):
            reader.take("every year", "in")
            reader.fail("a date without a year needs 'every year' after it")
        reader.advance()
    return spanned


def _read_date_numbers(reader: Reader) -> int | None:
    """`24`, `24th`, `24 through 26`, `24-26` as a mask."""
    reader.take("the")
    first_word, dash, last_word = reader.word.partition("-")
    first = last = _day_number(first_word)
    if first is None:
        return None
    reader.advance()
    if dash:
        last = _day_number(last_word)
    elif reader.take("through", "to"):
        last = _day_number(reader.word)
        reader.advance()
    return None if last is None or last < first else (2 << last) - (1 << first)


def _day_number(word: str) -> int | None:
    if word.isascii() and word.isdigit() and len(word) <= 2:
        number: int | None = int(word)
    else:
        number = None if word.isalpha() else read_ordinal(word)
    return number if number is not None and 1 <= number <= 31 else None


def _read_chain(reader: Reader) -> Days | None:
    """Lists of days, joined by "and on" (either matches) or by "falling on" (all must)."""
    days = _joined_group(reader, Days())
    return None if days is None else _read_further(reader, days)


def _read_further(reader: Reader, days: Days) -> Days:
    """Read further lists that are joined to a list of days."""
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
    """Read one list with the unit of its numbers, and add it to `days`."""
    place = reader.at
    if reader.take("every") and (step := _read_step(reader)):
        return replace(days, month_days=days.month_days | step)
    reader.at = place
    if reader.take("a day") and (weeks := _read_weeks(reader)):
        return replace(days, weeks=weeks)
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
        return replace(days, year_days=_merged(days.year_days, group.numbers))
    if any(not -31 <= number <= 31 for number in group.numbers):
        reader.fail("a month has at most 31 days; a day of the year is the 200th day 'of the year'")
    days = replace(
        days,
        month_days=days.month_days | mask_of_values(number for number in group.numbers if number > 0),
        last_days=_merged(days.last_days, [-number for number in group.numbers if number < 0]),
        nearest=_merged(days.nearest, group.nearest),
    )
    if (group.weekdays or group.nths) and (weeks := _read_weeks(reader)):
        days = replace(days, weeks=weeks)
    return days


@attempt
def _read_weeks(reader: Reader) -> tuple[int, ...] | None:
    """`of weeks 20 and 21`, `of week 1 and the last`, `of the last week`: numbers of weeks."""
    if reader.take("of weeks", "of week"):
        return tuple(sorted(set(reader.listed(_read_week_number))))
    number = reader.ordinal() if reader.take("of the") else None
    return (number,) if number is not None and number < 0 and reader.take("week") else None


def _read_week_number(reader: Reader) -> int:
    reader.take("the")
    number = reader.ordinal()
    number = reader.number() if number is None else number
    if number is None or not 1 <= abs(number) <= 53:
        reader.fail("weeks of a year are 1 to 53, or such as 'the last'")
    return number


def _merged(old: tuple[T, ...], new: list[T]) -> tuple[T, ...]:
    merged: set[T] = set(old) | set(new)
    return tuple(sorted(merged))


def _read_list(reader: Reader) -> _Group | None:
    """`Mondays, Fridays and the first Sunday`, `the 1st through 7th, 15th and last day`. None if there is no list."""
    group = _Group()
    return group if reader.listed(lambda reader: _read_item(reader, group) or None) else None


def _read_item(reader: Reader, group: _Group) -> bool:
    for phrase, mask in (("weekdays", WORKDAYS), ("weekday", WORKDAYS), ("weekends", WEEKEND), ("weekend", WEEKEND)):
        if reader.word == phrase and reader.peek() != "nearest" and reader.take(phrase):
            group.weekdays |= mask
            return True
    if reader.take(EACH_DAY):
        group.weekdays |= WEEK
        return True
    if week_run := _read_week_run(reader):
        group.weekdays |= week_run
        return True
    weekday = read_weekday(reader)
    if weekday is not None:
        group.weekdays |= 1 << weekday
        return True
    reader.take("the")
    if reader.take("weekday nearest to the", "weekday nearest the", "nearest weekday to the"):
        number = reader.ordinal()
        if number is None or not 1 <= abs(number) <= 31:
            return False
        reader.take("day")
        group.nearest.append(number)
        return True
    return _read_numbered(reader, group)


def _read_numbered(reader: Reader, group: _Group) -> bool:
    """`first Monday`, `last day`, `last weekday`, `1st`, `1st through 7th`, `2nd-to-last day`."""
    word, number = reader.word, reader.ordinal()
    if number is None:
        reader.take("weekdays", "Monday")
        return False
    weekday = read_weekday(reader)
    if weekday is not None:
        group.nths.append((weekday, number))
        return True
    if number == -1 and reader.take("weekday"):
        group.nearest.append(-1)
        return True
    if reader.take("through", "to"):
        reader.take("the")
        last = reader.ordinal()
        if last is None or not 0 < number <= last <= 366:
            return False
        group.numbers += range(number, last + 1)
    elif reader.take("day") or word[0].isdigit():
        group.numbers.append(number)
    else:
        return _read_shared_weekday(reader, group, number)
    reader.take("day")
    return True


def _read_shared_weekday(reader: Reader, group: _Group, number: int) -> bool:
    """`first and third Monday`: the ordinals share the weekday after the last of them."""
    numbers = [number]
    while reader.take(", and", ",", "and"):
        reader.take("the")
        following = reader.ordinal()
        if following is None:
            return False
        numbers.append(following)
    weekday = read_weekday(reader)
    if weekday is not None:
        group.nths += [(weekday, number) for number in numbers]
        return True
    if reader.take("day"):
        group.numbers += numbers
        return True
    return False
