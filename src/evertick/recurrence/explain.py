"""Explains why a spec fires at an instant, or why it does not.

The reason is found by comparing the spec with variants of it: without its bounds, without its exclusions, without its
EXDATEs; and from the zone's clock changes around the instant.
"""

from bisect import bisect_right
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from evertick.recurrence.english.describe import describe_exclusion
from evertick.recurrence.parse.moments import format_instant, format_local
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.zones.zones import Zone, local_of


class ReasonKind(StrEnum):
    """The kinds of reasons."""

    NAMED = "named"  # a source has this time
    NOT_NAMED = "not_named"  # no source has it
    MOVED = "moved"  # a clock change skipped the intended time
    FIRST_OF_TWO = "first_of_two"  # the local time happens twice; this is the first time
    SECOND_OF_TWO = "second_of_two"
    OTHER_OF_TWO = "other_of_two"  # the local time happens twice, and the policy takes the other one
    EXCLUDED = "excluded"
    REMOVED = "removed"  # an EXDATE or EXRULE removes it
    BEFORE_START = "before_start"
    AFTER_END = "after_end"


class Reason(NamedTuple):
    """One reason, as data and as a sentence. `exclusion` counts from 0."""

    kind: ReasonKind
    text: str
    exclusion: int | None = None
    meant_local: int | None = None


class Explanation(NamedTuple):
    """Whether the spec fires at an instant, and the reasons."""

    instant: int
    local: int
    fires: bool
    reasons: tuple[Reason, ...]


def explain(recurrence: Recurrence, instant: int) -> Explanation:
    """The reasons why the spec fires, or does not fire, at the instant."""
    spec, zone = recurrence.spec, recurrence.zone
    fires = recurrence.matches(instant)
    reasons: list[Reason] = []
    unbounded = replace(spec, start=None, end=None)
    named = fires or compile_spec(replace(unbounded, excludes=())).matches(instant)
    if named:
        reasons.append(Reason(kind=ReasonKind.NAMED, text="a source of the spec names this time"))
    elif _matches_without_removals(unbounded, instant):
        reasons.append(Reason(kind=ReasonKind.REMOVED, text="an EXDATE or EXRULE removes it"))
    else:
        reasons.append(Reason(kind=ReasonKind.NOT_NAMED, text="no source of the spec names this time"))
    note = clock_note(recurrence, instant) if fires else _other_pass(recurrence, instant)
    if note is not None:
        reasons.append(note)
    reasons += _bounds(spec, instant)
    if named and not fires and recurrence.exclusions is not None:
        number = recurrence.exclusions.first_match(local_of(zone, instant))
        if number is not None:
            text = f"left out (except {_exception(spec, number, local_of(zone, instant))})"
            reasons.append(Reason(kind=ReasonKind.EXCLUDED, text=text, exclusion=number))
    return Explanation(
        instant=instant, local=local_of(zone, instant), fires=fires, reasons=tuple(reasons)
    )  # fmt: skip


def clock_note(recurrence: Recurrence, instant: int) -> Reason | None:
    """The effect of a clock change on a time of the spec; None if there is none, which is nearly always."""
    zone = recurrence.zone
    change = change_near(zone, instant)
    if change is None:
        return None
    at, before, after = change
    if after > before:
        moved = [local for rule in recurrence.rules for local in rule.moved_from(instant)]
        if not moved or recurrence.matches(instant) is False:
            return None
        text = f"moved from {_clock(moved[0])}: clocks went forward from {_clock(at + before)} to {_clock(at + after)}"
        return Reason(kind=ReasonKind.MOVED, text=text, meant_local=moved[0])
    local = local_of(zone, instant)
    if not at + after <= local < at + before:
        return None
    second = instant >= at
    which = "second" if second else "first"
    text = f"{_clock(local)} happens twice, because clocks went back; this is the {which} time"
    return Reason(kind=ReasonKind.SECOND_OF_TWO if second else ReasonKind.FIRST_OF_TWO, text=text)


def change_near(zone: Zone, instant: int) -> tuple[int, int, int] | None:
    """The clock change near an instant that can move or repeat it: (instant, offset before, offset after); or None."""
    starts, offsets, *_ = zone.covering(instant)
    segment = bisect_right(starts, instant) - 1
    for k in (segment, segment + 1):
        if 0 < k < len(offsets):
            size = abs(offsets[k] - offsets[k - 1])
            if starts[k] - size <= instant < starts[k] + size:
                return starts[k], offsets[k - 1], offsets[k]
    return None


def _other_pass(recurrence: Recurrence, instant: int) -> Reason | None:
    """The reason if the same local time fires in the other pass of a repeated hour; else None."""
    change = change_near(recurrence.zone, instant)
    if change is None or change[2] >= change[1]:
        return None
    at, before, after = change
    twin = instant - (before - after) if instant >= at else instant + (before - after)
    if not recurrence.matches(twin):
        return None
    text = f"{_clock(local_of(recurrence.zone, instant))} happens twice; the spec takes only the other time"
    return Reason(kind=ReasonKind.OTHER_OF_TWO, text=text)


def _bounds(spec: Spec, instant: int) -> list[Reason]:
    if spec.start is not None and instant < spec.start:
        return [Reason(kind=ReasonKind.BEFORE_START, text=f"the spec starts at {format_instant(spec.start)}")]
    if spec.end is not None and instant > spec.end:
        return [Reason(kind=ReasonKind.AFTER_END, text=f"the spec ended at {format_instant(spec.end)}")]
    return []


def _exception(spec: Spec, number: int, local: int) -> str:
    """An exclusion in words; for holidays with the name of the holiday."""
    exclusion = spec.excludes[number]
    words = describe_exclusion(spec, number)
    if not isinstance(exclusion, exclude.Holidays):
        return words
    names = [holiday.name for holiday in exclusion.resolved or () if holiday.day == local // DAY]
    return f"{words} ({', '.join(names)})" if names else words


def _matches_without_removals(spec: Spec, instant: int) -> bool:
    if not any(rrule.exdates or rrule.exrules for rrule in spec.rrules):
        return False
    kept = tuple(replace(rrule, exdates=(), exrules=()) for rrule in spec.rrules)
    return compile_spec(replace(spec, rrules=kept, excludes=())).matches(instant)


def _clock(local: int) -> str:
    """The time of day, with its seconds only when there are any."""
    text = format_local(local)[11:]
    return text.removesuffix(":00") if local % DAY % 60 == 0 else text
