"""Short ways for tests to make specs and to write instants."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from evertick.recurrence import Recurrence, compile_spec
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.wire.reading import spec_from_wire

VECTORS = Path(__file__).parent.parent / "vectors"


def vectors(name: str) -> list[dict[str, Any]]:
    """The lines of a vector file."""
    return [json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text("utf-8").splitlines()]


def ids(lines: list[dict[str, Any]]) -> list[str]:
    """Their names, for pytest."""
    return [str(line["id"]) for line in lines]


def recurrence(**wire: Any) -> Recurrence:
    """The compiled form of a spec in its wire form; `exclude` stands for "except"."""
    if "exclude" in wire:
        wire["except"] = wire.pop("exclude")
    return compile_spec(spec_from_wire(wire))


def cron(line: str, tz: str = "UTC", **wire: Any) -> Recurrence:
    """A single cron line."""
    return recurrence(crons=[line], time_zone=tz, **wire)


def rrule(rule: str, dtstart: str = "2020-01-01T09:00:00", tz: str = "UTC", **wire: Any) -> Recurrence:
    """A single RRULE."""
    return recurrence(rrules=[{"dtstart": dtstart, "rrule": rule}], time_zone=tz, **wire)


def at(text: str) -> int:
    """An instant written in RFC 3339, a fraction cut off."""
    return int(datetime.fromisoformat(text).timestamp() // 1)


def local(recurrence: Recurrence, times: list[int]) -> list[str]:
    """Instants on the recurrence's wall clock."""
    return [format_instant(time, recurrence.zone.offset_at(time)) for time in times]
