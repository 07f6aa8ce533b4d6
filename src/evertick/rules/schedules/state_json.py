"""State as text: a `ScheduleState` as JSON for a column of the database, and back.

The text is canonical (equal states give equal texts) and leaves out what has its default, so that the usual state is
short. Of open runs and waiting occurrences it holds the numbers; they themselves are rows of their own, so that a tick
writes what it changes, however many there are. `VERSION` is written with it; a text of a newer version is refused
rather than misread. Version 1 held them itself: it is read as before, and still written while there are none, so that
a worker of an earlier release that runs meanwhile can read as much as possible.
"""

import json
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from evertick.base.errors import SchemaMismatch
from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import CatchUp, Overlap, Policies
from evertick.rules.schedules.state import (
    Backfill,
    Counters,
    Occurrence,
    OccurrenceKey,
    Pause,
    Recount,
    Run,
    RunEnd,
    ScheduleState,
    Stop,
    Unlisted,
)

VERSION: Final = 2
LISTS: Final = '"open":['
"""What only the texts contain that leave open runs or waiting occurrences to rows of their own."""

_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_PLAIN: Final = (
    "run_id_template", "note", "obstacle", "spec_ended", "pause", "recount", "last_result", "last_failure",
)  # fmt: skip
"""What is written as it is, if it is not empty. The obstacle is `blocked_reason`, as version 1 has always called it."""
_plain: Final = attrgetter(*(name.replace("obstacle", "blocked_reason") for name in _PLAIN))
_policies_row: Final = attrgetter(
    "overlap", "concurrency_limit", "catch_up", "catch_up_window_ms", "pause_on_failure", "buffer_limit"
)


def to_text(state: ScheduleState) -> str:
    """The state as JSON text."""
    value: dict[str, Any] = {name: part for name, part in zip(_PLAIN, _plain(state), strict=True) if part}
    value["v"] = 1
    value["policies"] = _policies_row(state.policies)
    value["seen_until"] = state.seen_until
    value["touched_at"] = state.touched_at
    if state.remaining is not None:
        value["remaining"] = state.remaining
    if state.open_runs or state.waits:
        value["v"] = VERSION
        value["open"] = (state.open_runs, state.waits)
    if state.ahead:
        value["ahead"] = [_occurrence_row(each) for each in state.ahead]
    if state.backfills:
        value["backfills"] = [_backfill_row(each) for each in state.backfills]
    if state.counters.by_reason:
        value["counters"] = dict(state.counters.by_reason)
    return _encode(value)


def from_text(text: str) -> ScheduleState:
    """The state that `to_text` wrote, with its open runs and waiting occurrences unlisted.

    Raises SchemaMismatch if a newer version wrote it.
    """
    value: dict[str, Any] = json.loads(text)
    if value["v"] > VERSION:
        raise SchemaMismatch(
            f"a schedule's state was written in version {value['v']}; this code reads up to {VERSION}: update it"
        )
    get = value.get
    pause, recount = get("pause"), get("recount")
    return ScheduleState(
        policies=_policies(*value["policies"]),
        run_id_template=get("run_id_template", ""),
        seen_until=value["seen_until"],
        touched_at=value["touched_at"],
        pause=None if pause is None else Pause(*pause),
        note=get("note", ""),
        blocked_reason=get("obstacle"),
        remaining=get("remaining"),
        spec_ended=get("spec_ended", False),
        recount=None if recount is None else Recount(*recount),
        running=tuple([_run(row) for row in get("running", ())]),
        waiting=tuple([_occurrence(row) for row in get("waiting", ())]),
        unlisted=Unlisted(*get("open", ())),
        ahead=tuple([_occurrence(row) for row in get("ahead", ())]),
        backfills=tuple([_backfill(row) for row in get("backfills", ())]),
        counters=Counters({Reason(reason): count for reason, count in get("counters", {}).items()}),
        last_result=_end(get("last_result")),
        last_failure=_end(get("last_failure")),
    )


@lru_cache(maxsize=1_024)  # most schedules share their policies with others
def _policies(
    overlap: str, limit: int, catch_up: str, window_ms: int, pause_on_failure: bool, buffer_limit: int
) -> Policies:
    return Policies(
        overlap=Overlap(overlap),
        concurrency_limit=limit,
        catch_up=CatchUp(catch_up),
        catch_up_window_ms=window_ms,
        pause_on_failure=pause_on_failure,
        buffer_limit=buffer_limit,
    )


Row = list[Any]


def _occurrence_row(each: Occurrence) -> Row:
    return [each.nominal_at, each.actual_at, each.overlap, each.origin, each.request]


def _occurrence(row: Row) -> Occurrence:
    nominal_at, actual_at, overlap, origin, request = row
    return Occurrence(
        nominal_at=nominal_at, actual_at=actual_at, overlap=Overlap(overlap), origin=Origin(origin), request=request
    )


def _run(row: Row) -> Run:
    occurrence, run_id, why, started_at, stop = row
    return Run(
        occurrence=_occurrence(occurrence),
        run_id=run_id,
        why=Reason(why),
        started_at=started_at,
        stop=None if stop is None else Stop(stop),
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


def _end(row: Row | None) -> RunEnd | None:
    if row is None:
        return None
    (origin, request, nominal_at), ended_at, ref, message = row
    return RunEnd(key=OccurrenceKey(Origin(origin), request, nominal_at), ended_at=ended_at, ref=ref, message=message)
