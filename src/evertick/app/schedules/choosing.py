"""Choosing schedules in a few words: `state:paused kind:cron next<1h report`.

Terms are joined by "and". `state:` active (enabled), paused (disabled), completed or unreadable; `kind:` schedule or
cron; `function:NAME`; `health:` failing, late or missed; `tz:NAME`, the time zone; `next<TIME`, whose next time comes
before a moment or within a duration; bare words side by side are a part of the id, and so is `id:`. Words with spaces
stand in quotes.
"""

import shlex
from datetime import datetime
from typing import Final

from evertick.app.schedules.queries import HEALTH, Where
from evertick.base.errors import InvalidSpec, Misuse
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.recurrence.parse.moments import typed_moment
from evertick.recurrence.zones.names import zone_named

STATES: Final = {
    "active": "active", "enabled": "active", "paused": "paused", "disabled": "paused", "completed": "completed",
    "unreadable": "unreadable",
}  # fmt: skip
KINDS: Final = ("schedule", "cron")
HELP: Final = (
    "state:active|paused|completed|unreadable, kind:schedule|cron, function:NAME, next<TIME, "
    "health:failing|late|missed, tz:NAME, id:TEXT or a part of the id"
)


def parse_query(text: str, now: Instant) -> Where:
    """What a query chooses. Raises Misuse for what is none, and says what there is."""
    where: Where = {}
    try:
        terms = shlex.split(text)
    except ValueError as error:
        raise Misuse(f"{text!r}: {error}") from None
    was_bare = False
    for term in terms:
        name, value = _term(term)
        is_bare = name == "id_contains" and not term.startswith("id:")
        if is_bare and was_bare:
            where["id_contains"] = f"{where['id_contains']} {value}"
            continue
        was_bare = is_bare
        if not value:
            raise Misuse(f"{term!r} says nothing; a query is made of {HELP}")
        if name in where:
            raise Misuse(f'{term!r} is said twice; terms are joined by "and"')
        match name:
            case "status":
                where["status"] = _of(STATES, value, term)
            case "kind":
                where["kind"] = _of({kind: kind for kind in KINDS}, value, term)
            case "function":
                where["function"] = value
            case "time_zone":
                where["time_zone"] = value
            case "health":
                where["health"] = _of({word: word for word in HEALTH}, value, term)
            case "next_before":
                where["next_before"] = _moment(value, now)
            case _:
                where["id_contains"] = value
    return where


def _term(term: str) -> tuple[str, str]:
    names = {
        "state": "status", "status": "status", "kind": "kind", "function": "function", "fn": "function",
        "id": "id_contains", "health": "health", "tz": "time_zone", "zone": "time_zone", "time_zone": "time_zone",
    }  # fmt: skip
    if term.startswith("next<"):
        return "next_before", term.removeprefix("next<").removeprefix("=")
    name, colon, value = term.partition(":")
    if not colon:
        return "id_contains", term
    if name not in names:
        raise Misuse(f"there is nothing like {name!r}; a query is made of {HELP}")
    return names[name], value


def _of(words: dict[str, str], value: str, term: str) -> str:
    if value not in words:
        raise Misuse(f"{term!r} is none of {', '.join(words)}")
    return words[value]


def _moment(value: str, now: Instant) -> datetime:
    try:
        return to_datetime(Instant(now + parse_milliseconds(value)))
    except InvalidSpec:
        return to_datetime(Instant(typed_moment(value, "next<", zone_named("UTC"), now // SECOND_MS) * SECOND_MS))
