"""Specs of schedules: several joined into one, bounded, checked against the limits, anchored where they begin."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from evertick.app.documents.ranges import Unset
from evertick.base.errors import InvalidSpec, LimitExceeded, Misuse
from evertick.base.instants import Instant, to_iso
from evertick.engine.runtime.settings import Settings
from evertick.recurrence.builders import bounds_of, sentence
from evertick.recurrence.english.phrases.grammar import NO_SOURCES
from evertick.recurrence.parse.duration import format_milliseconds
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.spec import Spec

TIMES_CHECKED: Final = 100
"""Coming times of a spec whose distances are checked when it is given to a schedule."""

MINUTE_S: Final = 60

SEARCH_S_MAX: Final = 2.0
"""Seconds of processor time that may go into finding the next time of a spec that is given to a schedule."""

PARTS_MAX: Final = 10_000
"""Specs that are united into one."""

When = Spec | str | Sequence[Spec | str]
"""One spec, or several whose times are united. A text is a cron line or a sentence; see `builders.sentence`."""


def union(when: When) -> Spec:
    """The times of all specs in one.

    They must agree on everything that is said once for the whole (zone, exclusions, bounds, jitter, clock changes); a
    spec of intervals or moments alone follows the others' zone.
    Raises InvalidSpec where they do not, for an empty list or more than PARTS_MAX, and for a text that cannot be read;
    Misuse for anything but a spec or a text.
    """
    specs = list(_parts(when))
    if not specs:  # a list that was computed, most likely, and not a wish that nothing run
        raise InvalidSpec(
            "when= is an empty list, so it would never run by itself; "
            f"for what runs only by trigger or backfill write when={NO_SOURCES!r}"
        )
    if len(specs) == 1:
        return specs[0]
    common = {name: _agreed(specs, name) for name in ("excludes", "start", "end", "jitter_ms", "dst", "dialect")}
    zoned = [spec for spec in specs if spec.crons or spec.calendars or spec.rrules] or specs
    joined = Spec(
        crons=tuple(one for spec in specs for one in spec.crons),
        intervals=tuple(one for spec in specs for one in spec.intervals),
        calendars=tuple(one for spec in specs for one in spec.calendars),
        rrules=tuple(one for spec in specs for one in spec.rrules),
        times=tuple(one for spec in specs for one in spec.times),
        time_zone=_agreed(zoned, "time_zone"),
        time_zone_data=_agreed(zoned, "time_zone_data"),
        **common,
    )
    compile_spec(joined)
    return joined


def _parts(when: When) -> Iterator[Spec]:
    """The specs, each read before the next one is asked for: what is iterable may have no end."""
    given: Iterable[Any] = when if isinstance(when, Iterable) and not isinstance(when, str) else [when]
    for count, one in enumerate(given):
        if count == PARTS_MAX:
            raise InvalidSpec(f"when= unites more than {PARTS_MAX:,} specs; many times are one spec: at(*moments)")
        spec = sentence(one) if isinstance(one, str) else one
        if not isinstance(spec, Spec):
            raise Misuse(f"when= takes cron(...), every(...), a sentence or a list of these, not {spec!r}")
        yield spec


def bounded(spec: Spec, bounds: dict[str, Any]) -> Spec:
    """The spec with another `start`, `end`, `jitter` or `except_`, in the words of the builders; UNSET lifts.

    Raises InvalidSpec, also for a moment without a time zone.
    """
    if not bounds:
        return spec
    read = replace(Spec(), **bounds_of(spec, {k: v for k, v in bounds.items() if not isinstance(v, Unset)}))
    changed = replace(spec, **{_FIELDS[name]: getattr(read, _FIELDS[name]) for name in bounds})
    compile_spec(changed)
    return changed


_FIELDS: Final = {"start": "start", "end": "end", "jitter": "jitter_ms", "except_": "excludes"}
"""The field of `Spec` that each bound sets. A spec made without one holds the default."""


def check_searchable(spec: Spec, now: Instant) -> None:
    """Refuse a spec whose next time takes too long to find: by rules that fire once in decades, or never.

    It is asked before a transaction begins, which others wait for. Raises InvalidSpec.
    """
    began = time.thread_time()
    for rule in compile_spec(spec).rules:
        rule.next(now // 1000)
        if time.thread_time() - began > SEARCH_S_MAX:
            raise InvalidSpec(
                f"the next time of the spec takes more than {SEARCH_S_MAX:g} s to find: many of its sources fire "
                "seldom or never; leave these out, or make several schedules"
            )


def check_spec(spec: Spec, now: Instant, settings: Settings, *, may_have_ended: bool = False) -> None:
    """Refuse a spec that a schedule cannot have.

    Raises InvalidSpec if it never fires, or (unless it `may_have_ended`) not again; LimitExceeded if its times come
    faster than the settings allow.
    """
    if not spec.has_sources:
        return
    check_searchable(spec, now)
    recurrence = compile_spec(spec)
    if recurrence.is_empty():
        raise InvalidSpec("the spec never fires: no moment matches it")
    if not may_have_ended and recurrence.has_ended(now // 1000):
        last = recurrence.prev(now // 1000 + 1)
        was = f"its last time was {to_iso(Instant(last * 1000))}" if last is not None else "its end has passed"
        raise InvalidSpec(f"the spec has no further time: {was}")
    _check_heat(recurrence, now, settings)


def anchored(spec: Spec, at: Instant) -> Spec:
    """The spec with its plain intervals counted from the second of `at`, as crons count theirs.

    An interval with an anchor or an offset keeps the grid that was asked for.
    """
    second = at // 1000
    return replace(
        spec,
        intervals=tuple(
            replace(one, anchor=second) if one.anchor is None and not one.offset else one for one in spec.intervals
        ),
    )


def _check_heat(recurrence: Recurrence, now: Instant, settings: Settings) -> None:
    per_minute = settings.schedule_starts_per_minute
    times = recurrence.preview(max(TIMES_CHECKED, per_minute) + 1, now // 1000)
    for earlier, later in pairwise(times):
        if (later - earlier) * 1000 < settings.schedule_interval_min_ms:
            raise LimitExceeded(
                f"{to_iso(Instant(earlier * 1000))} and {to_iso(Instant(later * 1000))} are closer than "
                f"{format_milliseconds(settings.schedule_interval_min_ms)}, the least interval allowed "
                "(schedule_interval_min_ms in Settings)"
            )
    for earlier, later in zip(times, times[per_minute:], strict=False):
        if later - earlier < MINUTE_S:
            raise LimitExceeded(
                f"the spec names more than {per_minute} times a minute from {to_iso(Instant(earlier * 1000))} on, "
                "which is the most allowed (schedule_starts_per_minute in Settings)"
            )


def _agreed(specs: Sequence[Spec], name: str) -> Any:
    first, *others = [getattr(spec, name) for spec in specs]
    if any(other != first for other in others):
        word = {"excludes": "except_", "jitter_ms": "jitter", "time_zone": "time zone"}.get(name, name)
        raise InvalidSpec(
            f"the specs of a union must agree on their {word}; say the same in each, or give it to the schedule"
        )
    return first
