"""Schedules as people read them: which columns tables have, and a few words for each value.

Programs get the JSON form of the schemas in `evertick.api`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.api.reports import PreviewedTime, TimePreview
from evertick.api.schedules import (
    BackfillView,
    OccurrenceView,
    OpenRunView,
    Remark,
    ScheduleDescription,
    ScheduleSummary,
    TimeView,
)
from evertick.base.durations import distance, length
from evertick.base.escaping import json_text, printable, schedule_word
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.base.suggested_commands import no_schedule
from evertick.cli.core.databases import chosen_tenant
from evertick.cli.core.output import MomentWriter, on_terminal, words_of
from evertick.recurrence.english.describe import describe
from evertick.recurrence.parse.duration import format_milliseconds
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.spec import Spec

if TYPE_CHECKING:
    from evertick.cli.schedule.session import Session


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
    """A time in UTC as text; empty for None."""
    return "" if moment is None else to_iso(from_datetime(moment))


def summary_words(schedule: ScheduleSummary, moment: MomentWriter) -> dict[str, str]:
    """The fields of a schedule in a list as text."""
    return words_of(schedule, moment) | {"function": schedule.runs}


def description_words(schedule: ScheduleDescription, moment: MomentWriter) -> dict[str, str]:
    """Everything about a schedule as text; fields without a value are empty."""
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
    """The fields of a ledger row as text. Nominal times identify occurrences, so they are never relative."""
    return words_of(each, moment, exact=("nominal", "actual"))


def occurrence_line(each: OccurrenceView) -> str:
    """A row of the ledger as one line."""
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
    """The progress of a backfill as one line."""
    rest = {"waiting": each.waiting, "skipped": each.skipped, "missed": each.missed}
    parts = [f"{each.started:,} of {each.times:,} started, {each.ended:,} ended"]
    parts += [f"{count:,} {word}" for word, count in rest.items() if count]
    return f"{each.id}  " + ", ".join(parts)


def _target(schedule: ScheduleDescription) -> str:
    """The call of a schedule as one line: `app.report {"id": 3}`; for a script with its input."""
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
        parts.append(f"up to {target.retry.attempts} attempts")
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
    """If the clock was set back: the time up to which no time counts, and the command that fixes it; else empty."""
    if schedule.silent_until is None:
        return ""
    command = f"evertick schedule resume {schedule_word(schedule.id)} --from-now"
    return f"{iso(schedule.silent_until)}: the clock was ahead and times up to then were judged; {command}"


def _took(started: datetime, ended: datetime) -> str:
    return length(max(0, from_datetime(ended) - from_datetime(started)))


# -- Times of a schedule as lines: on its own clock, in UTC, how far away, and what clock changes have to do with them.

END_OF_TIME: Final = datetime(9999, 12, 31, tzinfo=UTC)
SHOWN: Final = 5
"""Coming times that `create` and `update` show."""


def say_state(schedule: ScheduleDescription) -> None:
    """If a schedule starts no scheduled runs, print the reason on stderr."""
    if not schedule.spec.has_sources:
        click.echo("note: it has no times; it runs only when triggered", err=True)
    if schedule.pause is not None:
        why = f": {printable(schedule.pause.note)}" if schedule.pause.note else ""
        click.echo(f"note: it is paused{why}", err=True)
    elif schedule.blocked_reason is not None:
        click.echo(f"note: its times are skipped: {printable(schedule.blocked_reason)}", err=True)
    elif schedule.ending is not None and schedule.spec.has_sources:
        click.echo(f"note: it has ended ({schedule.ending})", err=True)


def write_times(times: Sequence[TimeView], spec: Spec, now: Instant) -> None:
    """Write times for people: aligned on a terminal, separated by tabs in a pipe."""
    recurrence = compile_spec(spec)
    wide = on_terminal()
    for time in times:
        row = previewed(recurrence, time)
        cells = [row.utc] if recurrence.zone.name == "UTC" else [row.time, row.utc]
        if wide:
            cells.append(distance(from_datetime(time.nominal), now))
        cells += [f"starts {row.actual}" if row.actual else "", row.note or ""]
        click.echo(("   " if wide else "\t").join(cells).rstrip())


def previewed(recurrence: Recurrence, time: TimeView) -> PreviewedTime:
    """A time of a schedule; `actual` is set only if jitter changes it."""
    actual = {} if time.actual == time.nominal else {"actual": to_iso(from_datetime(time.actual))}
    return PreviewedTime.at(recurrence, from_datetime(time.nominal) // 1000, **actual)


def times_of_schedule(session: "Session", sid: str, start: str, end: str | None, count: int) -> TimePreview:
    """At most `count` times of a schedule: in [start, end), or without `end` those after `start`.

    Raises ScheduleNotFound, InvalidSpec.
    """
    obstacle, function = session.obstacle(sid), session.function(sid)
    recurrence = session.recurrence(sid)
    if recurrence is None:
        raise no_schedule(sid, chosen_tenant())
    warnings = session.schedules.describe(sid).warnings
    if obstacle is not None:
        skipped = f"as things stand these times are skipped: {obstacle}"
        warnings = (Remark(code="target_ineligible", where=function, message=skipped), *warnings)
    begin = session.moment(start, "--after" if end is None else "--from", sid)
    if end is None:
        first, last = begin + timedelta(milliseconds=1), END_OF_TIME
    else:
        first, last = begin, session.moment(end, "--to", sid, "after")
    times = session.schedules.matching_times(sid, first, last, limit=count)
    ended: dict[str, Any] = {} if times or end is not None else {"ended": True}
    return TimePreview(
        schedule=sid,
        description=describe(recurrence.spec),
        time_zone=recurrence.zone.name,
        after=format_instant(from_datetime(begin) // 1000),
        times=tuple(previewed(recurrence, time) for time in times),
        warnings=warnings,
        **ended,
    )
