"""Schedules as the command line shows them: stable names and forms for programs, few words for people.

Times for programs are RFC 3339 in UTC, or null; `MomentStyle` writes them for people.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from evertick.app.schedule_views import (
    BackfillView,
    HistoryLine,
    OccurrenceView,
    ScheduleDescription,
    ScheduleSummary,
    TimeView,
)
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.cli.output import on_terminal
from evertick.cli.printable import json_text
from evertick.cli.words import distance, length
from evertick.rules.recurrence.duration import format_milliseconds
from evertick.rules.recurrence.wire import spec_to_wire

Command = TypeVar("Command", bound=Callable[..., Any])
Moment = Callable[[datetime | None], str]

SUMMARY_FIELDS: Final = (
    "id", "kind", "state", "next", "last", "sentence", "time_zone", "function", "note", "source", "version", "memo",
    "created", "updated",
)  # fmt: skip
LIST_FIELDS: Final = ("id", "state", "next", "sentence", "function")
LONG_FIELDS: Final = ("id", "kind", "state", "next", "last", "sentence", "time_zone", "function", "note", "source")

OCCURRENCE_FIELDS: Final = (
    "schedule", "nominal", "actual", "origin", "request", "fate", "reason", "detail", "decided", "run", "job_id",
    "started", "ended", "outcome", "late_ms",
)  # fmt: skip
OCCURRENCE_LIST: Final = ("nominal", "schedule", "fate", "reason", "run", "outcome", "detail")

HISTORY_FIELDS: Final = ("at", "actor", "action", "detail", "schedule", "id")
HISTORY_LIST: Final = ("at", "actor", "action", "detail")

BACKFILL_FIELDS: Final = (
    "id", "schedule", "start", "end", "overlap", "asked", "times", "started", "ended", "waiting", "skipped", "missed",
    "done",
)  # fmt: skip


def time_option(command: Command) -> Command:
    """`--time relative|iso|local`, received as `time_style: str | None`."""
    return click.option(
        "--time", "time_style", type=click.Choice(("relative", "iso", "local")),
        help="How tables write times; JSON always has them in UTC.",
    )(command)  # fmt: skip


def moments(style: str | None, output: str | None, now: Instant) -> Moment:
    """Writes moments for people: as `--time` says, else relative in a table and exact in a pipe."""
    if style is None:
        style = "relative" if output == "table" or (output is None and on_terminal()) else "iso"

    def write(moment: datetime | None) -> str:
        if moment is None:
            return ""
        at = from_datetime(moment)
        if style == "iso":
            return to_iso(at)
        if style == "local":
            return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %z}"
        return distance(at, now)

    return write


def iso(moment: datetime | None) -> str | None:
    """A moment for programs."""
    return None if moment is None else to_iso(from_datetime(moment))


# -- schedules


def summary_row(schedule: ScheduleSummary) -> dict[str, Any]:
    """A schedule in a list."""
    return {
        "id": schedule.id,
        "kind": schedule.kind,
        "state": schedule.status,
        "next": iso(schedule.next),
        "last": iso(schedule.last),
        "sentence": schedule.sentence,
        "time_zone": schedule.time_zone,
        "function": schedule.function,
        "note": schedule.note,
        "source": schedule.source,
        "version": schedule.version,
        "memo": schedule.memo,
        "created": iso(schedule.created),
        "updated": iso(schedule.updated),
    }


def summary_words(schedule: ScheduleSummary, moment: Moment) -> dict[str, str]:
    """The same cells as text."""
    words = {name: plain(value) for name, value in summary_row(schedule).items()}
    words |= {name: moment(getattr(schedule, name)) for name in ("next", "last", "created", "updated")}
    return words


def description_row(schedule: ScheduleDescription) -> dict[str, Any]:
    """Everything about a schedule."""
    policies, target = schedule.policies, schedule.target
    return summary_row(schedule) | {
        "spec": spec_to_wire(schedule.spec),
        "target": {
            "function": target.function,
            "kind": target.kind.value,
            "input": target.args,
            "workflow_id": target.workflow_id,
            "pool": target.pool,
            "retry": None if target.retry is None else json.loads(target.retry.to_json()),
        },
        "run_id_template": schedule.run_id_template,
        "policies": {
            "overlap": policies.overlap.value,
            "concurrency": policies.concurrency_limit,
            "catch_up": policies.catch_up.value,
            "catchup_window": format_milliseconds(policies.catch_up_window_ms),
            "pause_on_failure": policies.pause_on_failure,
            "buffer_limit": policies.buffer_limit,
        },
        "pause": None
        if schedule.pause is None
        else {
            "since": iso(schedule.pause.since),
            "by": schedule.pause.by,
            "note": schedule.pause.note,
            "until": iso(schedule.pause.until),
        },
        "obstacle": schedule.obstacle,
        "remaining_actions": schedule.remaining,
        "ending": None if schedule.ending is None else schedule.ending.value,
        "silent_until": iso(schedule.silent_until),
        "counters": {
            "started": schedule.actions,
            "skipped": schedule.skipped,
            "missed": schedule.missed,
            "by_reason": {reason.value: count for reason, count in schedule.counters.items()},
        },
        "upcoming": [time_row(time) for time in schedule.upcoming],
        "running": [
            {
                "run": run.run,
                "nominal": iso(run.nominal),
                "started": iso(run.started),
                "origin": run.origin.value,
                "reason": run.reason.value,
                "stop": None if run.stop is None else run.stop.value,
            }
            for run in schedule.running
        ],
        "waiting": [
            {"nominal": iso(each.nominal), "origin": each.origin.value, "overlap": each.overlap.value}
            for each in schedule.waiting
        ],
        "recent": [occurrence_row(each) for each in schedule.recent],
        "backfills": [backfill_row(each) for each in schedule.backfills],
        "last_result": schedule.last_result,
        "last_failure": schedule.last_failure,
    }


DESCRIPTION_FIELDS: Final = (
    *SUMMARY_FIELDS, "spec", "target", "run_id_template", "policies", "pause", "obstacle", "remaining_actions",
    "ending", "silent_until", "counters", "upcoming", "running", "waiting", "recent", "backfills", "last_result",
    "last_failure",
)  # fmt: skip


def description_words(schedule: ScheduleDescription, moment: Moment) -> dict[str, str]:
    """Everything about a schedule as lines of text; what says nothing is empty, and left out."""
    row = description_row(schedule)
    words = {name: plain(value) for name, value in row.items()} | summary_words(schedule, moment)
    words["spec"] = json_text(row["spec"])
    words["target"] = target_words(schedule)
    words["policies"] = policies_words(schedule)
    words["pause"] = pause_words(schedule, moment)
    words["silent_until"] = silent_words(schedule)
    words["counters"] = ", ".join(f"{count:,} {reason}" for reason, count in row["counters"]["by_reason"].items())
    words["upcoming"] = "\n".join(iso(time.nominal) or "" for time in schedule.upcoming)
    words["running"] = "\n".join(f"{run.run} since {moment(run.started)}" for run in schedule.running)
    words["waiting"] = "\n".join(f"{iso(each.nominal)} ({each.overlap})" for each in schedule.waiting)
    words["recent"] = "\n".join(occurrence_line(each) for each in schedule.recent)
    words["backfills"] = "\n".join(backfill_line(each) for each in schedule.backfills)
    words["last_result"] = "" if schedule.last_result is None else json_text(schedule.last_result)
    return words


def target_words(schedule: ScheduleDescription) -> str:
    """What it calls, in a line: `app.report {"id": 3}  pool mail`."""
    target = schedule.target
    parts = [target.function]
    if target.args:
        parts.append(json_text(target.args))
    if target.workflow_id is not None:
        parts.append(f"named {target.workflow_id}-...")
    if target.pool is not None:
        parts.append(f"on {target.pool}")
    if target.retry is not None:
        parts.append(f"up to {target.retry.attempts_max} attempts")
    return "  ".join(parts)


def policies_words(schedule: ScheduleDescription) -> str:
    """The policies, in a line."""
    policies = schedule.policies
    parts = [f"overlap {policies.overlap}"]
    if policies.concurrency_limit != 1:
        parts.append(f"up to {policies.concurrency_limit} at a time")
    parts.append(f"catch-up {policies.catch_up} within {format_milliseconds(policies.catch_up_window_ms)}")
    if policies.pause_on_failure:
        parts.append("pause on failure")
    return ", ".join(parts)


def pause_words(schedule: ScheduleDescription, moment: Moment) -> str:
    """Since when, by whom and why it rests."""
    pause = schedule.pause
    if pause is None:
        return ""
    until = "" if pause.until is None else f", until {moment(pause.until)}"
    note = f": {pause.note}" if pause.note else ""
    return f"since {moment(pause.since)} by {pause.by or 'somebody'}{until}{note}"


def silent_words(schedule: ScheduleDescription) -> str:
    """What a clock that was set back means, and what helps."""
    if schedule.silent_until is None:
        return ""
    command = f"evertick schedule resume --sid {schedule.id} --from-now"
    return f"{iso(schedule.silent_until)}: the clock was ahead and times up to then were judged; {command}"


# -- their parts


def time_row(time: TimeView) -> dict[str, Any]:
    """A time of a spec."""
    return {"nominal": iso(time.nominal), "actual": iso(time.actual)}


def occurrence_row(each: OccurrenceView) -> dict[str, Any]:
    """A row of the ledger."""
    late_by = each.late_by
    return {
        "schedule": each.schedule,
        "nominal": iso(each.nominal),
        "actual": iso(each.actual),
        "origin": each.origin.value,
        "request": each.request,
        "fate": each.fate.value,
        "reason": each.reason.value,
        "detail": each.detail,
        "decided": iso(each.decided),
        "run": each.run,
        "job_id": each.job_id,
        "started": iso(each.started),
        "ended": iso(each.ended),
        "outcome": None if each.outcome is None else each.outcome.value,
        "late_ms": None if late_by is None else round(late_by.total_seconds() * 1000),
    }


def occurrence_words(each: OccurrenceView, moment: Moment) -> dict[str, str]:
    """The same cells as text. Nominal times are names, so they are never relative."""
    words = {name: plain(value) for name, value in occurrence_row(each).items()}
    words |= {name: moment(getattr(each, name)) for name in ("decided", "started", "ended")}
    return words


SIGNS: Final = {"started": "✓", "buffered": "≡", "skipped": "↷", "missed": "!"}
"""A sign for each fate."""


def occurrence_line(each: OccurrenceView) -> str:
    """A row of the ledger in a line."""
    sign = "✕" if each.outcome is not None and each.outcome in ("failed", "timed_out") else SIGNS[each.fate]
    parts = [f"{iso(each.nominal)} {sign} {each.fate} ({each.reason})"]
    if each.fate == "started" and each.run is not None:
        parts.append(each.run)
    if each.outcome is not None:
        took = "" if each.ended is None or each.started is None else f" after {_took(each.started, each.ended)}"
        parts.append(f"{each.outcome}{took}")
    if each.detail and each.fate != "started":
        parts.append(each.detail)
    return "  ".join(parts)


def history_row(line: HistoryLine) -> dict[str, Any]:
    """A line of a schedule's history."""
    return asdict(line) | {"at": iso(line.at)}


def backfill_row(each: BackfillView) -> dict[str, Any]:
    """A backfill."""
    overlap = None if each.overlap is None else each.overlap.value
    return asdict(each) | {
        "start": iso(each.start), "end": iso(each.end), "asked": iso(each.asked), "overlap": overlap
    }  # fmt: skip


def backfill_line(each: BackfillView) -> str:
    """How far a backfill has come, in a line."""
    rest = {"waiting": each.waiting, "skipped": each.skipped, "missed": each.missed}
    parts = [f"{each.started:,} of {each.times:,} started, {each.ended:,} ended"]
    parts += [f"{count:,} {word}" for word, count in rest.items() if count]
    return f"{each.id}  " + ", ".join(parts)


def plain(value: Any) -> str:
    """A value as text in a cell; nothing where there is nothing."""
    if value is None or value in ({}, []):
        return ""
    return value if isinstance(value, str) else json_text(value)


def cells(rows: Sequence[Mapping[str, str]], fields: Sequence[str]) -> list[list[str]]:
    """The chosen cells of rows of words."""
    return [[row[field] for field in fields] for row in rows]


def _took(started: datetime, ended: datetime) -> str:
    return length(max(0, from_datetime(ended) - from_datetime(started)))
