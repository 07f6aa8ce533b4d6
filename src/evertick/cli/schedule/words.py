"""Schedules as people read them: which columns tables have, and a few words for each value.

Programs get the JSON form of the schemas in `evertick.api`.
"""

from datetime import datetime
from typing import Final

from evertick.api.schedules import BackfillView, OccurrenceView, OpenRunView, ScheduleDescription, ScheduleSummary
from evertick.base.durations import length
from evertick.base.escaping import json_text, schedule_word
from evertick.base.instants import from_datetime, to_iso
from evertick.cli.core.output import MomentWriter, words_of
from evertick.recurrence.parse.duration import format_milliseconds

LIST_FIELDS: Final = ("id", "state", "next", "type", "sentence", "time_zone", "function")
LONG_FIELDS: Final = (
    "id",
    "kind",
    "state",
    "next",
    "last",
    "type",
    "sentence",
    "time_zone",
    "function",
    "note",
    "source",
)
OCCURRENCE_LIST: Final = ("nominal", "schedule", "fate", "reason", "run", "outcome", "detail")
HISTORY_LIST: Final = ("at", "actor", "action", "detail")
SIGNS: Final = {"started": "✓", "buffered": "≡", "skipped": "↷", "missed": "!"}
"""A sign for each fate."""


def iso(moment: datetime | None) -> str:
    """A moment in UTC; empty for None."""
    return "" if moment is None else to_iso(from_datetime(moment))


def summary_words(schedule: ScheduleSummary, moment: MomentWriter) -> dict[str, str]:
    """A schedule in a list as text."""
    return words_of(schedule, moment) | {"function": schedule.runs}


def description_words(schedule: ScheduleDescription, moment: MomentWriter) -> dict[str, str]:
    """Everything about a schedule as lines of text; what says nothing is empty."""
    words = summary_words(schedule, moment)
    words["spec"] = json_text(schedule.to_json()["spec"])
    words["target"] = _target(schedule)
    words["policies"] = _policies(schedule)
    words["pause"] = _pause(schedule, moment)
    words["silent_until"] = _silent(schedule)
    words["counters"] = ", ".join(f"{count:,} {reason}" for reason, count in schedule.counters.by_reason.items())
    words["upcoming"] = "\n".join(iso(time.nominal) for time in schedule.upcoming)
    words["running"] = "\n".join(_open_run(run, moment) for run in schedule.running)
    words["waiting"] = "\n".join(f"{iso(each.nominal)} ({each.overlap})" for each in schedule.waiting)
    words["recent"] = "\n".join(occurrence_line(each) for each in schedule.recent)
    words["backfills"] = "\n".join(backfill_line(each) for each in schedule.backfills)
    words["last_result"] = "" if schedule.last_result is None else json_text(schedule.last_result)
    return words


def _open_run(run: OpenRunView, moment: MomentWriter) -> str:
    blocked = ", blocked: no live worker runs its function" if run.blocked else ""
    return f"{run.run} since {moment(run.started)}{blocked}"


def occurrence_words(each: OccurrenceView, moment: MomentWriter) -> dict[str, str]:
    """A row of the ledger as text. Nominal times are names, so they are never relative."""
    return words_of(each, moment, exact=("nominal", "actual"))


def occurrence_line(each: OccurrenceView) -> str:
    """A row of the ledger in a line."""
    sign = "✕" if each.outcome in ("failed", "timed_out") else SIGNS[each.fate]
    parts = [f"{iso(each.nominal)} {sign} {each.fate} ({each.reason})"]
    if each.fate == "started" and each.run is not None:
        parts.append(each.run)
    if each.outcome is not None:
        took = "" if each.ended is None or each.started is None else f" after {_took(each.started, each.ended)}"
        parts.append(f"{each.outcome}{took}")
    if each.detail and each.fate != "started":
        parts.append(each.detail)
    return "  ".join(parts)


def backfill_line(each: BackfillView) -> str:
    """How far a backfill has come, in a line."""
    rest = {"waiting": each.waiting, "skipped": each.skipped, "missed": each.missed}
    parts = [f"{each.started:,} of {each.times:,} started, {each.ended:,} ended"]
    parts += [f"{count:,} {word}" for word, count in rest.items() if count]
    return f"{each.id}  " + ", ".join(parts)


def _target(schedule: ScheduleDescription) -> str:
    """What it calls, in a line: `app.report {"id": 3}`; of a script its input."""
    target = schedule.target
    parts = [schedule.runs]
    given = target.args if schedule.script is None else target.args.get("input")
    if given not in (None, {}):
        parts.append(json_text(given))
    if target.workflow_id is not None:
        parts.append(f"named {target.workflow_id}-...")
    if target.pool is not None:
        parts.append(f"on {target.pool}")
    if target.retry is not None:
        parts.append(f"up to {target.retry.attempts_max} attempts")
    return "  ".join(parts)


def _policies(schedule: ScheduleDescription) -> str:
    policies = schedule.policies
    parts = [f"overlap {policies.overlap}"]
    if policies.concurrency_limit != 1:
        parts.append(f"up to {policies.concurrency_limit} at a time")
    parts.append(f"catch-up {policies.catch_up} within {format_milliseconds(policies.catch_up_window_ms)}")
    if policies.pause_on_failure:
        parts.append("pause on failure")
    if policies.run_timeout_ms is not None:
        parts.append(f"runs time out after {format_milliseconds(policies.run_timeout_ms)}")
    return ", ".join(parts)


def _pause(schedule: ScheduleDescription, moment: MomentWriter) -> str:
    pause = schedule.pause
    if pause is None:
        return ""
    by = f" by {pause.by}" if pause.by else ""
    until = "" if pause.until is None else f", until {moment(pause.until)}"
    note = f": {pause.note}" if pause.note else ""
    return f"since {moment(pause.since)}{by}{until}{note}"


def _silent(schedule: ScheduleDescription) -> str:
    """What it means that the clock was set back, and the command that helps."""
    if schedule.silent_until is None:
        return ""
    command = f"evertick schedule resume {schedule_word(schedule.id)} --from-now"
    return f"{iso(schedule.silent_until)}: the clock was ahead and times up to then were judged; {command}"


def _took(started: datetime, ended: datetime) -> str:
    return length(max(0, from_datetime(ended) - from_datetime(started)))
