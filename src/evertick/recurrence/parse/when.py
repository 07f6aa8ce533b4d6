"""Moments as people type them, in a command or a form: RFC 3339, a local time or date, `now`, `now-2h`, `yesterday`,
`today` or `tomorrow`.

A day alone, as a date or as one of these words, is its first second where something begins. Where something ends, it is
the whole day: the `edge` says so.
"""

from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse.duration import parse_duration
from evertick.recurrence.parse.moments import parse_moment
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.text import bounded, shown
from evertick.recurrence.zones.zones import Edge, Zone, day_edge, local_of, moment_instant

DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}


def typed_moment(text: str, what: str, zone: Zone, now: int, edge: Edge = "first") -> int:
    """The moment that `text` names, in seconds since the epoch, as `now` is. Local times and days are of `zone`.

    `edge`: the second of a day alone that is meant.

    Raises InvalidSpec, which calls the text `what`.
    """
    if text in DAYS:
        today = local_of(zone, now) // DAY
        return day_edge(zone, today + DAYS[text], edge)
    if text.startswith("now"):
        rest = text[3:]
        if not rest:
            return now
        if rest[0] in "+-" and len(rest) > 1:
            length = parse_duration(rest[1:])
            return now + length if rest[0] == "+" else now - length
    if not text[:1].isdigit():  # a word, which may be meant for one of those above
        raise InvalidSpec(
            f"{what} {shown(bounded(text, what, 64))} is not a date or time; write now, now-1h, yesterday, today, "
            "tomorrow, 2026-12-24 or 2026-12-24T09:00:00Z"
        )
    return moment_instant(zone, parse_moment(text, what), edge)
