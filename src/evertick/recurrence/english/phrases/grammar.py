"""Basic English: lists, ordinals, plurals, runs of numbers, and fixed phrases."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from evertick.recurrence.spec.sources import Skip
from evertick.recurrence.spec.spec import Gap, Overlap

NEVER_PAST: Final = "but not past the next time"
"""For a jitter that is longer than the interval."""
NO_SOURCES: Final = "only when triggered"
ELAPSED: Final = "in real time"
FIXED: Final = "by the clock"
SKIPS: Final = {
    Skip.BACKWARD: "on the last day of months that are too short",
    Skip.FORWARD: "on the day after months that are too short",
}
GAPS: Final = {
    Gap.NEXT: "right after the gap when clocks go forward",
    Gap.SHIFT: "shifted when clocks go forward",
    Gap.SKIP: "skipped when clocks go forward",
}
OVERLAPS: Final = {
    Overlap.FIRST: "once when clocks go back",
    Overlap.BOTH: "twice when clocks go back",
    Overlap.LAST: "in the second pass when clocks go back",
}


ORDINAL_WORDS: Final = ("first", "second", "third", "fourth", "fifth")
_ORDINAL: Final = re.compile(r"([0-9]{1,4})(st|nd|rd|th)")
_FROM_THE_END: Final = re.compile(r"([0-9]{1,4})(?:st|nd|rd|th)-to-last")


def joined(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def plural(count: int, unit: str) -> str:
    """`1 day`, `2 days`."""
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def ordinal(number: int) -> str:
    """`1st`, `22nd`, `113th`; counted from the end when negative: `last`, `2nd-to-last`."""
    if number == -1:
        return "last"
    size = abs(number)
    ending = "th" if size % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(size % 10, "th")
    return f"{size}{ending}" if number > 0 else f"{size}{ending}-to-last"


def ordinal_word(number: int) -> str:
    """`first` to `fifth`, then ordinals in digits."""
    return ORDINAL_WORDS[number - 1] if 1 <= number <= 5 else ordinal(number)


def read_ordinal(word: str) -> int | None:
    """The number of `first`, `3rd`, `last` or `2nd-to-last`; None for any other word."""
    if word == "last":
        return -1
    if word in ORDINAL_WORDS:
        return ORDINAL_WORDS.index(word) + 1
    found = _ORDINAL.fullmatch(word) or _FROM_THE_END.fullmatch(word)
    if found is None or int(found[1]) == 0:
        return None
    number = int(found[1]) if found.re is _ORDINAL else -int(found[1])
    return number if ordinal(number) == word else None


def runs(values: Sequence[int], shortest: int = 3) -> list[tuple[int, int]]:
    """Ascending numbers as (first, last) runs; runs shorter than `shortest` are split."""
    found: list[tuple[int, int]] = []
    start = 0
    for at in range(1, len(values) + 1):
        if at < len(values) and values[at] == values[at - 1] + 1:
            continue
        if at - start >= shortest:
            found.append((values[start], values[at - 1]))
        else:
            found += [(value, value) for value in values[start:at]]
        start = at
    return found


def said_runs(values: Sequence[int], say: Callable[[int], str] = str) -> list[str]:
    """Each run of the numbers in words: `3`, `5 through 9`."""
    return [say(a) if a == b else f"{say(a)} through {say(b)}" for a, b in runs(values)]
