"""State as text: a `ScheduleState` as JSON for a column of the database, and back.

The text is canonical (equal states give equal texts) and omits defaults, so that the usual state is short. Of open runs
and waiting occurrences it contains only the numbers. They are separate rows, so that a tick writes only changes,
however many there are. The text contains `VERSION`; a text of a newer version is refused instead of misread.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, Final

from evertick.base.errors import SchemaMismatch
from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import CatchUp, Overlap, Policies
from evertick.rules.schedules.state import (
    NO_COUNTERS,
    NONE_UNLISTED,
    Backfill,
    Counters,
    Occurrence,
    OccurrenceKey,
    Pause,
    Recount,
    RunEnd,
    ScheduleState,
    Unlisted,
)

VERSION: Final = 1
LISTS: Final = '"open":['
"""The marker of texts in which open runs or waiting occurrences are separate rows."""

_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_decode: Final = json.JSONDecoder().raw_decode
_quoted: Final = encode_basestring
_policies_row: Final = attrgetter(
    "overlap", "concurrency_limit", "catch_up", "catch_up_window_ms", "pause_on_failure", "buffer_limit"
)
_REASONS: Final = {reason.value: reason for reason in Reason}
_ORIGINS: Final = {origin.value: origin for origin in Origin}


def to_text(state: ScheduleState) -> str:
    """The state as JSON text: its parts in the order of their names, each formatted by hand.

    An encoder that sorts takes three times as long, and a start and the end of its run each write a state.
    """
    open_runs, waits = state.open_runs, state.waits
    by_reason, remaining = state.counters.by_reason, state.remaining
    parts = (
        f'"ahead":{_encode([_occurrence_row(each) for each in state.ahead])},' if state.ahead else "",
        f'"backfills":{_encode([_backfill_row(each) for each in state.backfills])},' if state.backfills else "",
        f'"counters":{_counters_text(by_reason)},' if by_reason else "",
        f'"last_failure":{_end_text(state.last_failure)},' if state.last_failure is not None else "",
        f'"last_result":{_end_text(state.last_result)},' if state.last_result is not None else "",
        f'"note":{_quoted(state.note)},' if state.note else "",
        f'"obstacle":{_quoted(state.blocked_reason)},' if state.blocked_reason else "",
        f'"open":[{open_runs},{waits}],' if open_runs or waits else "",
        f'"pause":{_encode(state.pause)},' if state.pause is not None else "",
        f'"policies":{_policies_text(state.policies)},',
        f'"recount":{_encode(state.recount)},' if state.recount is not None else "",
        f'"remaining":{remaining},' if remaining is not None else "",
        f'"run_id_template":{_quoted(state.run_id_template)},' if state.run_id_template else "",
        f'"seen_until":{state.seen_until},',
        '"spec_ended":true,' if state.spec_ended else "",
        f'"touched_at":{state.touched_at},"v":{VERSION}',
    )
    return f"{{{''.join(parts)}}}"


def from_text(text: str) -> ScheduleState:
    """The state that `to_text` wrote, with its open runs and waiting occurrences unlisted.

    Raises SchemaMismatch if a newer version wrote it.
    """
    value: dict[str, Any]
    value, end = _decode(text)
    if end != len(text):
        raise ValueError(f"more follows after the state, at {end}")
    if value["v"] > VERSION:
        raise SchemaMismatch(
            f"a schedule's state was written in version {value['v']}; this code reads up to {VERSION}: update it"
        )
    get = value.get
    pause, recount = get("pause"), get("recount")
    return ScheduleState(
        _policies(*value["policies"]),
        get("run_id_template", ""),
        value["seen_until"],
        value["touched_at"],
        None if pause is None else Pause(*pause),
        get("note", ""),
        get("obstacle"),
        get("remaining"),
        get("spec_ended", False),
        None if recount is None else Recount(*recount),
        (),
        (),
        Unlisted(*value["open"]) if "open" in value else NONE_UNLISTED,
        tuple([_occurrence(row) for row in value["ahead"]]) if "ahead" in value else (),
        tuple([_backfill(row) for row in value["backfills"]]) if "backfills" in value else (),
        Counters({_REASONS[reason]: count for reason, count in value["counters"].items()})
        if "counters" in value
        else NO_COUNTERS,
        _end(get("last_result")),
        _end(get("last_failure")),
    )


@lru_cache(maxsize=1_024)  # most schedules share their policies with others
def _policies(
    overlap: str, limit: int, catch_up: str, window_ms: int, pause_on_failure: bool, buffer_limit: int,
    run_timeout_ms: int | None = None,
) -> Policies:  # fmt: skip
    return Policies(
        overlap=Overlap(overlap),
        concurrency_limit=limit,
        catch_up=CatchUp(catch_up),
        catch_up_window_ms=window_ms,
        pause_on_failure=pause_on_failure,
        buffer_limit=buffer_limit,
        run_timeout_ms=run_timeout_ms,
    )


@lru_cache(maxsize=1_024)
def _policies_text(policies: Policies) -> str:
    more = () if policies.run_timeout_ms is None else (policies.run_timeout_ms,)
    return _encode([*_policies_row(policies), *more])


def _counters_text(by_reason: Mapping[Reason, int]) -> str:
    counts = ",".join([f'"{reason}":{count}' for reason, count in sorted(by_reason.items())])
    return f"{{{counts}}}"


Row = list[Any]


def _occurrence_row(each: Occurrence) -> Row:
    return [each.nominal_at, each.actual_at, each.overlap, each.origin, each.request]


def _occurrence(row: Row) -> Occurrence:
    nominal_at, actual_at, overlap, origin, request = row
    return Occurrence(
        nominal_at=nominal_at, actual_at=actual_at, overlap=Overlap(overlap), origin=Origin(origin), request=request
    )


def _backfill_row(each: Backfill) -> Row:
    row: Row = [each.id, each.start_at, each.end_at, each.overlap, each.done_until, each.added]
    return [*row, each.max_active, each.skip] if each.max_active is not None or each.skip else row


def _backfill(row: Row) -> Backfill:
    name, start_at, end_at, overlap, done_until, added, *more = row
    max_active, skip = more or (None, ())
    return Backfill(
        id=name,
        start_at=start_at,
        end_at=end_at,
        overlap=None if overlap is None else Overlap(overlap),
        done_until=done_until,
        added=added,
        max_active=max_active,
        skip=tuple((Instant(first), Instant(last)) for first, last in skip),
    )


def _end_text(end: RunEnd) -> str:
    (origin, request, nominal_at), ended_at, ref, message = end
    ref_text = "null" if ref is None else _quoted(ref)
    return f'[["{origin}",{_quoted(request)},{nominal_at}],{ended_at},{ref_text},{_quoted(message)}]'


def _end(row: Row | None) -> RunEnd | None:
    if row is None:
        return None
    (origin, request, nominal_at), ended_at, ref, message = row
    return RunEnd(OccurrenceKey(_ORIGINS[origin], request, nominal_at), ended_at, ref, message)
