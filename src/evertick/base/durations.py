"""Short texts for times and durations: `in 5 s`, `3 min ago`, `1.2 s`, and the wall clock of this machine."""

from datetime import datetime
from typing import Final

from evertick.base.instants import DAY_MS, HOUR_MS, MINUTE_MS, NEVER, SECOND_MS, Instant, to_local

_UNITS: Final = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))


def length(duration_ms: int) -> str:
    """A duration in one unit: `7 ms`, `1.2 s`, `5 min`, `3 d`; decimals only below 10 seconds."""
    size = abs(duration_ms)
    if size < SECOND_MS:
        return f"{size} ms"
    if size < 10 * SECOND_MS and size % SECOND_MS:
        return f"{size / SECOND_MS:.1f}".removesuffix(".0") + " s"
    for unit_ms, unit in _UNITS:
        if size >= unit_ms:
            return f"{round(size / unit_ms)} {unit}"
    raise AssertionError("a second is the smallest unit here")


def full_length(duration_ms: int) -> str:
    """A duration in two units, rounded down: `42 min`, `1 h 12 min`, `2 d 6 h`; below ten seconds as `length`.

    For a sentence that compares two of them, such as how late a run was and how late it could be.
    """
    size = abs(duration_ms)
    if size < 10 * SECOND_MS:
        return length(size)
    words: list[str] = []
    for unit_ms, unit in _UNITS:
        count, rest = divmod(size, unit_ms)
        if count and len(words) < 2:
            words.append(f"{count} {unit}")
            size = rest
        elif words:
            break
    return " ".join(words)


def distance(at: Instant, now: Instant) -> str:
    """The distance from `now` to `at`: `in 5 s`, `3 min ago`, `now`; `at an event` for NEVER."""
    if at >= NEVER:
        return "at an event"
    if abs(at - now) < SECOND_MS:
        return "now"
    return f"in {length(at - now)}" if at > now else f"{length(now - at)} ago"


def wait(until: Instant, now: Instant) -> str:
    """The remaining wait: as `distance`, but exact below a second: `in 250 ms`."""
    return "now" if until <= now else f"in {length(until - now)}"


def clock_time(at: Instant, now: Instant) -> str:
    """The wall clock of this machine at `at`; with the date if that is another day than `now`'s."""
    local, today = to_local(at), to_local(now)
    if local.date() == today.date():
        return f"{local:%H:%M:%S}"
    return f"{local:%Y-%m-%d %H:%M:%S}"


def wall_clock() -> str:
    """The current time of day, as `evertick dev` prints it before every line."""
    return f"{datetime.now().astimezone():%H:%M:%S}"
