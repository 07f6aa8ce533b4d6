"""Lengths of time in words: `5 hours and 15 minutes`, `90 seconds`. Days are 24 hours."""

from typing import Final

from evertick.recurrence.english.phrases.grammar import joined, plural
from evertick.recurrence.english.phrases.reader import Reader

UNITS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_SHORT: Final = {"sec": "second", "s": "second", "min": "minute", "h": "hour", "hr": "hour"}
LONGEST: Final = 10_000 * 366 * 86_400


def unit_named(word: str) -> str | None:
    """`minute` for `minute`, `minutes`, `min` and `mins`; None for what is no unit of a fixed length."""
    single = word if word in UNITS or word in _SHORT else word.removesuffix("s")
    single = _SHORT.get(single, single)
    return single if single in UNITS else None


def say_duration(seconds: int) -> str:
    """Whole seconds, in one unit where that is natural: `90 minutes`, `36 hours`, `7 days`."""
    if seconds % 86_400 == 0 and seconds != 86_400:
        return plural(seconds // 86_400, "day")
    for unit, size, most in (("hour", 3_600, 1 << 62), ("minute", 60, 7_200), ("second", 1, 120)):
        if seconds % size == 0 and seconds <= most:
            return plural(seconds // size, unit)
    parts, rest = [], seconds
    for unit in ("day", "hour", "minute", "second"):
        amount, rest = divmod(rest, UNITS[unit])
        if amount:
            parts.append(plural(amount, unit))
    return joined(parts)


def say_offset(seconds: int) -> str:
    """A shift, where one day need not be told from 24 hours."""
    return "1 day" if seconds == UNITS["day"] else say_duration(seconds)


def say_milliseconds(milliseconds: int) -> str:
    """Milliseconds, as seconds and longer where they are whole."""
    seconds, rest = divmod(milliseconds, 1_000)
    if not rest:
        return say_duration(seconds)
    return plural(milliseconds, "millisecond")


def read_duration(reader: Reader) -> int | None:
    """`5 hours and 15 minutes`, `90 min`: whole seconds. None, and no word taken, for anything else."""
    total = _amount(reader)
    while total is not None:
        place = reader.at
        reader.take(",")
        reader.take("and")
        more = _amount(reader)
        if more is None:
            reader.at = place
            break
        total += more
    if total is not None and total > LONGEST:
        reader.fail("that is longer than 10,000 years")
    return total


def read_milliseconds(reader: Reader) -> int | None:
    """A length of time that may also be given in milliseconds."""
    place = reader.at
    number = reader.number()
    if number is not None and reader.take("milliseconds", "millisecond", "ms"):
        return number
    reader.at = place
    seconds = read_duration(reader)
    return None if seconds is None else seconds * 1_000


def _amount(reader: Reader) -> int | None:
    place = reader.at
    number = reader.number()
    if number is not None and (unit := unit_named(reader.word)):
        reader.advance()
        return number * UNITS[unit]
    reader.at = place
    return None
