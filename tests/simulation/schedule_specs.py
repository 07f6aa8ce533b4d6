"""Specs for simulated schedules, each with a walk of its own that says which times it names.

The walks share no code with the recurrence engine: arithmetic for intervals, and for local times the slow walk of
`tests.recurrence.brute`. So the ledger is compared with what a spec means, not with what the evaluator made of it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from tests.recurrence.brute import expected

LORD_HOWE: Final = "Australia/Lord_Howe"
APIA: Final = "Pacific/Apia"
HOUR_S: Final = 3600

Walk = Callable[[int, int], list[int]]
"""The nominal times in (after, until], in whole seconds."""


@dataclass(frozen=True, slots=True)
class DrawnSpec:
    """A spec in the wire form, and its own walk."""

    wire: dict[str, Any]
    walk: Walk = field(compare=False)
    jitter_ms: int = 0


def every(seconds: int, offset: int = 0, *, jitter_s: int = 0, minutes_out: tuple[int, ...] = ()) -> DrawnSpec:
    """An interval from the epoch, perhaps with jitter, perhaps without some minutes of each hour."""
    wire: dict[str, Any] = {"intervals": [{"every": f"{seconds}s", "offset": f"{offset}s"}]}
    if jitter_s:
        wire["jitter"] = f"{jitter_s}s"
    if minutes_out:
        minutes = ",".join(map(str, minutes_out))
        wire["except"] = [{"calendar": {"minute": minutes, "hour": "*", "second": "*"}}]

    def walk(after: int, until: int) -> list[int]:
        first = after + seconds - (after - offset) % seconds
        return [at for at in range(first, until + 1, seconds) if at // 60 % 60 not in minutes_out]

    return DrawnSpec(wire, walk, jitter_s * 1000)


def daily(zone: str, times: tuple[int, ...], *, gap: str = "next", overlap: str = "first") -> DrawnSpec:
    """Local times of every day, as seconds since local midnight, under a clock-change policy."""
    wire = {
        "calendars": [{"hour": str(time // 3600), "minute": str(time // 60 % 60)} for time in times],
        "time_zone": zone,
        "dst": {"gap": gap, "overlap": overlap},
    }
    return DrawnSpec(wire, lambda after, until: expected(times, ZoneInfo(zone), after + 1, until + 1, gap, overlap))


def some_moments(moments: tuple[int, ...]) -> DrawnSpec:
    """A few single moments: a spec that ends."""
    return DrawnSpec(
        {"times": [_iso(moment) for moment in moments]},
        lambda after, until: sorted(at for at in set(moments) if after < at <= until),
    )


def draw_fast(chance: random.Random, start_s: int) -> DrawnSpec:
    """A spec that fires many times an hour."""
    draw = chance.random()
    if draw < 0.1:
        return some_moments(tuple(start_s + chance.randint(1, 3000) for _ in range(chance.randint(1, 5))))
    seconds = chance.choice((5, 20, 45, 60, 60, 90, 300))
    if draw < 0.35:
        return every(seconds, jitter_s=chance.choice((2, 30, 600)))
    if draw < 0.5:
        return every(60, minutes_out=tuple(chance.sample(range(60), 20)))
    return every(seconds, chance.randrange(seconds))


def draw_slow(chance: random.Random, start_s: int, zone: str) -> DrawnSpec:
    """A spec that fires a few times a day, in a zone whose clocks change, or by the hour."""
    draw = chance.random()
    if draw < 0.1:
        return some_moments(tuple(start_s + chance.randint(1, 5 * 86_400) for _ in range(chance.randint(1, 5))))
    if draw < 0.4:
        return every(chance.choice((1, 2, 6)) * HOUR_S, jitter_s=chance.choice((0, 0, 900, 7200)))
    half_hours = chance.sample(range(48), chance.randint(1, 4))
    return daily(
        zone,
        tuple(sorted(half_hour * 1800 + 900 for half_hour in half_hours)),
        gap=chance.choice(("next", "shift", "skip")),
        overlap=chance.choice(("first", "both", "last")),
    )


def _iso(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()
