"""States: a glyph, a word and a color for each, the same on every page. Nothing else is colored."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from evertick.api.jobs import JobView
from evertick.api.schedules import DetailedSchedule, OccurrenceView
from evertick.api.workflows import RunTimeline, RunView, RunWait, TimedStep
from evertick.base.durations import full_length, length
from evertick.base.escaping import json_text, one_line
from evertick.base.instants import SECOND_MS, Instant, from_datetime
from evertick.base.outcomes import STUCK
from evertick.base.records.jobs import FunctionKind, JobState
from evertick.base.records.workflows import CallKind, RunState, word_of
from evertick.dashboard.markup.charts import BARS
from evertick.dashboard.markup.filling import filled
from evertick.dashboard.markup.timelines import WAITING
from evertick.dashboard.markup.times import Times, seconds
from evertick.rules.schedules.fates import FAILURES, NOT_ENDED, Fate, Reason

WORDS: Final[dict[str, tuple[str, str]]] = {
    # of jobs and runs
    "pending": ("queued", "pending"),
    "in_progress": ("running", "running"),
    "success": ("ok", "ok"),
    "failed": ("failed", "failed"),
    "timed_out": ("failed", "timed out"),
    "canceled": ("canceled", "canceled"),
    "terminated": ("canceled", "terminated"),
    "lost": ("failed", "lost"),
    "retried": ("late", "retried"),
    # of occurrences
    "started": ("ok", "started"),
    "buffered": ("queued", "waiting"),
    "skipped": ("skipped", "skipped"),
    "missed": ("missed", "missed"),
    # of schedules and workflow types
    "active": ("active", "active"),
    "paused": ("paused", "paused"),
    "completed": ("canceled", "ended"),
    "unreadable": ("failed", "unreadable"),
    "deprecated": ("canceled", "deprecated"),
    "deleted": ("canceled", "deleted"),
    # of runs of scripts
    "error": ("failed", "error"),
    "timeout": ("late", "timeout"),
    "memory": ("late", "memory"),
    "output": ("late", "output"),
    "limit": ("late", "limit"),
    "violation": ("failed", "violation"),
    "crash": ("failed", "crash"),
    "killed": ("canceled", "killed"),
    "internal": ("canceled", "internal"),
    # of workers
    "alive": ("active", "alive"),
}
"""The CSS class in `dash.css` for the color and glyph of a state, and its label."""
REASONS: Final[dict[Reason, str]] = {
    Reason.ON_TIME: "started on time",
    Reason.CAUGHT_UP: "started late, caught up after a delay",
    Reason.AFTER_WAIT: "started after an earlier run had ended",
    Reason.TRIGGERED: "started by a trigger",
    Reason.BACKFILLED: "started by a backfill",
    Reason.BEHIND_RUN: "waits for an earlier run",
    Reason.STOPPING_RUN: "waits until earlier runs have stopped",
    Reason.OVERLAP: "an earlier run was still running",
    Reason.SUPERSEDED: "a newer time took its place",
    Reason.PAUSED: "the schedule was paused",
    Reason.LIMIT: "no runs were left",
    Reason.TARGET_INELIGIBLE: "the workflow was paused or deprecated",
    Reason.BACKFILL_CANCELED: "the backfill was canceled",
    Reason.DELETED: "the schedule was deleted",
    Reason.CATCH_UP_WINDOW: "older than the catch-up window",
    Reason.CATCH_UP_LATEST: "only the latest late time runs",
    Reason.CATCH_UP_NONE: "late times do not run",
    Reason.CATCH_UP_OVERLAP: "only the first late time runs",
    Reason.CATCH_UP_SUPERSEDED: "only the last late time runs",
    Reason.CATCH_UP_DROPPED: "late, and dropped before it started",
    Reason.BUFFER_FULL: "too many times were waiting",
    Reason.RUNS_FULL: "too many runs were open",
    Reason.START_REFUSED: "the run could not be started",
}
"""Texts for the reasons of the ledger, shown after the fate."""


def state(kind: str, word: str | None = None, *, big: bool = False) -> Markup:
    """A state with its glyph and label; `big` is for the heading of a page. `kind` is a state or a CSS class."""
    css, usual = WORDS.get(kind, (kind, kind))
    return filled('<span class="st {}{}">{}</span>', css, " big" if big else "", usual if word is None else word)


def glyph(kind: str, word: str | None = None) -> Markup:
    """Only the glyph; its label is for screen readers."""
    css, usual = WORDS.get(kind, (kind, kind))
    return filled('<span class="st g {}"><span class="vh">{}</span></span>', css, usual if word is None else word)


def outcome_of(occurrence: Any) -> str:
    """The state of an occurrence in one word, from its fate and the outcome of its run: `ok`, `late`, `missed` ..."""
    if occurrence.fate is not Fate.STARTED:
        return {Fate.BUFFERED: "queued", Fate.SKIPPED: "skipped", Fate.MISSED: "missed"}[occurrence.fate]
    if occurrence.outcome is None:
        return "running" if occurrence.ended is None else "ok"
    if occurrence.outcome == "success":
        return "late" if occurrence.is_late else "ok"
    return WORDS.get(str(occurrence.outcome), ("failed", ""))[0]


# -- Kinds of functions as text: what each kind guarantees.

PROMISES: Final = {
    FunctionKind.QUERY: "query, reads only",
    FunctionKind.MUTATION: "mutation, exactly once",
    FunctionKind.ACTION: "action, at most once",
    FunctionKind.WORKFLOW: "workflow, step by step",
}


def kind_words(function: Any) -> str:
    """`action, 3 attempts`: the kind of a function, and how often it is tried."""
    retry = function.retry
    if function.kind is FunctionKind.ACTION and retry is not None and retry.attempts > 1:
        return f"action, up to {retry.attempts} attempts"
    return PROMISES[function.kind]


# -- Short explanations of a schedule's last time, for the second line of a row.

SINCE: Final = re.compile(r" since \d{4}-\d\d-\d\dT[\d:.]+Z")
"""The start of a pause: there is no space for it in a row, and the history shows it."""


def last_why(schedule: DetailedSchedule) -> str:
    """The explanation of a schedule's last time; empty if it was as expected."""
    last = schedule.last_occurrence
    if last is None:
        return ""
    if last.outcome in FAILURES:
        row = 0
        for ending in reversed(schedule.strip):
            if ending != "failed":
                break
            row += 1
        lasted = f", after {seconds(last.duration)}" if last.duration is not None else ""
        return f"{row}{' or more' if row == BARS else ''} in a row{lasted}" if row > 1 else lasted.removeprefix(", ")
    return why_of(last)


def why_of(occurrence: OccurrenceView) -> str:
    """Why an occurrence did not run, or why its start was unusual; empty if it ran on time."""
    if occurrence.reason is Reason.PAUSED:
        return SINCE.sub("", occurrence.detail) or REASONS[Reason.PAUSED]
    # Names of runs are long, and rows are truncated at the end, so the reason comes before the name.
    if occurrence.reason is Reason.OVERLAP and occurrence.detail.endswith(NOT_ENDED):
        return f"{REASONS[Reason.OVERLAP]}: {occurrence.detail.removesuffix(NOT_ENDED)}"
    if occurrence.fate is not Fate.STARTED:
        return occurrence.detail or REASONS[occurrence.reason]
    return f"started {full_length(occurrence.late_ms or 0)} late" if occurrence.is_late else ""


# -- Jobs on a page: the state of a job, a note about it, and its error.

LATE_MS: Final = 2 * SECOND_MS
"""A due job that waits longer is late."""


def job_state(job: JobView, now: Instant) -> tuple[str, str]:
    """The CSS class of a job's state, and its label."""
    if job.state is JobState.IN_PROGRESS:
        if job.error is not None and job.error["type"] == STUCK:
            return "failed", "stuck"
        return ("running", "stopping") if job.cancel_requested else ("running", "running")
    if job.state is not JobState.PENDING:
        return {JobState.SUCCESS: "ok", JobState.FAILED: "failed"}.get(job.state, "canceled"), _ended(job)
    waited = now - from_datetime(job.due_at)
    if job.blocked:
        return "late", "blocked"
    if job.kind is not FunctionKind.WORKFLOW and waited > LATE_MS:
        return "late", f"late {length(waited)}"
    if has_begun(job):
        return "running", "waits"
    return "queued", f"retry {job.failures}" if job.failures else "pending"


def job_note(job: JobView) -> str:
    """A note about a job next to its state, in one line; empty for a job without problems."""
    if job.unreadable:
        return f"cannot be read: {one_line('; '.join(job.unreadable))}"
    if job.blocked:
        return f"no live worker serves {job.function} in pool {job.pool}"
    if job.held is not None:
        return job.held
    return error_line(job.error) if job.error is not None else ""


def has_begun(job: JobView) -> bool:
    """Whether this is a workflow's run that has begun and waits for what its code waits for."""
    return job.kind is FunctionKind.WORKFLOW and job.attempt > 0


def unread(row: Any, column: str) -> bool:
    """Whether this column of a row cannot be read, so that the view has a default instead of the stored value."""
    return any(each.partition(":")[0] == column for each in row.unreadable)


def error_line(error: dict[str, Any]) -> str:
    """`ValueError: no such user`."""
    message = one_line(str(error["message"]))[:300]
    return f"{error['type']}: {message}" if message else str(error["type"])


def beginning(error: dict[str, Any]) -> str:
    """The common beginning of similar errors, for a filter: everything before the first number."""
    return re.split(r"[0-9a-f]*[0-9]|\n", f"{error['type']}: {error['message']}", maxsplit=1)[0].rstrip()[:200]


def _ended(job: JobView) -> str:
    if job.state is JobState.SUCCESS:
        return "ok"
    return "failed" if job.state is JobState.FAILED else "canceled"


# -- The state of a run, and what it waits for, as text.

NAMED: Final = 3
"""Calls that are listed; further ones are counted."""
RUN_WORDS: Final = {RunState.PENDING: "has not begun", RunState.SUCCESS: "done"}


def run_state(run: RunView, took: str = "", *, big: bool = False) -> Markup:
    """The state of a run, with its duration `took`; a run that has begun and waits counts as running."""
    kind = "in_progress" if run.state is RunState.RUNNING else run.state.value
    words = RUN_WORDS.get(run.state) or WORDS[kind][1]
    return state(kind, f"{words} {took}".strip(), big=big)


def run_glyph(run: RunView) -> Markup:
    """Only the glyph of a run's state."""
    kind = "in_progress" if run.state is RunState.RUNNING else run.state.value
    return glyph(kind, RUN_WORDS.get(run.state))


def waiting(waits: Sequence[RunWait], times: Times) -> Markup:
    """What a run waits for: `the event “paid” until Fri 27 Nov 09:00, and the action shop.charge`; empty for none."""
    parts = [_wait(each, times) for each in waits[:NAMED]]
    if len(waits) > NAMED:
        parts.append(Markup("{} more").format(len(waits) - NAMED))
    if not parts:
        return Markup()
    *most, last = parts
    return Markup(", ").join(most) + (Markup(" and ") if most else Markup()) + last


def not_taken(found: RunTimeline, times: Times) -> Markup:
    """Events of a run: `1 event waits that its code has not taken: “paid”, sent 04:27 by ada.`; empty for none."""
    count = found.waiting_event_count
    if not count:
        return Markup()
    named = [
        Markup("“{}”, sent {}{}").format(
            each.name, times.when(each.sent_at), "" if each.sent_by is None else f" by {each.sent_by}"
        )
        for each in found.waiting_events[:NAMED]
    ]
    named += [Markup("{} more").format(f"{count - NAMED:,}")] if count > NAMED else []
    what = "1 event waits" if count == 1 else f"{count:,} events wait"
    return Markup("{} that its code has not taken: {}.").format(what, Markup("; ").join(named))


def apart(found: RunTimeline) -> dict[int, str]:
    """Labels that distinguish steps with the same name, by number: the key or attributes of a child, or an argument.

    Steps with a unique name have none, and neither have steps without such data.
    """
    names = Counter(each.name for each in found.steps)
    children = {child.id: child for child in found.children}
    return {
        each.step: _of_its_own(each, children.get(each.job_id) if each.job_id else None)
        for each in found.steps
        if names[each.name] > 1
    }


def _of_its_own(step: TimedStep, child: RunView | None) -> str:
    if child is not None and child.key:
        return child.key
    if child is not None and child.attributes:
        return ", ".join(f"{name}={word_of(value)}" for name, value in child.attributes.items())
    first = next(iter((step.args or {}).values()), "")
    return first if isinstance(first, str) else json_text(first)


def _wait(wait: RunWait, times: Times) -> Markup:
    until = Markup()
    if wait.until is not None:
        until = Markup(" until {}").format(times.when(wait.until))
    if wait.kind is CallKind.SLEEP:
        return Markup("a sleep{}").format(until)
    if wait.kind is CallKind.TIMER:
        return Markup("a timer{}").format(until)
    if wait.kind is CallKind.EVENT:
        return Markup("the event “{}”{}").format(wait.name, until)
    what = {CallKind.WORKFLOW: "the workflow"}.get(wait.kind, "the job" if wait.kind is CallKind.JOB else "the action")
    held = Markup()
    if wait.held is not None:
        held = Markup(", which {}").format(wait.held)
    return Markup("{} {}{}").format(what, wait.name, held)


def step_state(step: TimedStep, run: RunView) -> Markup:
    """The state of a step."""
    if step.outcome == "success":
        tries = len(step.attempts)
        return state("ok", "ok" if tries < 2 else f"ok, try {tries}")
    if step.outcome == "failed":
        return state("failed")
    if step.outcome == "canceled":
        return state("canceled", "given up")
    if run.completed_at is not None:
        return state("canceled", "not ended")
    if step.kind in WAITING:
        return state("running", "waiting")
    if step.held is not None:
        return state("queued", "held back")
    if step.kind is not CallKind.WORKFLOW and not any(each.outcome is None for each in step.attempts):
        return state("queued", "queued" if not step.attempts else f"retry {len(step.attempts)}")
    return state("in_progress")


def step_took(step: TimedStep, run: RunView, times: Times) -> str:
    """The duration of a step so far or in all."""
    if step.duration_ms is not None:
        return length(step.duration_ms)
    end = times.now if run.completed_at is None else from_datetime(run.completed_at)
    return length(max(0, end - from_datetime(step.started_at)))


def run_took(run: RunView, times: Times) -> str:
    """The duration of a run so far or in all."""
    end = times.now if run.completed_at is None else from_datetime(run.completed_at)
    return length(max(0, end - from_datetime(run.created_at)))
