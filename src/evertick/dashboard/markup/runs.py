"""What a run waits for, and how it stands, in words."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from evertick.api.workflows import RunTimeline, RunView, RunWait, TimedStep
from evertick.base.durations import length
from evertick.base.escaping import json_text
from evertick.base.instants import from_datetime
from evertick.base.records.workflows import CallKind, RunState, word_of
from evertick.dashboard.markup.states import WORDS, glyph, state
from evertick.dashboard.markup.timelines import WAITING
from evertick.dashboard.markup.times import Times

NAMED: Final = 3
"""Calls that a sentence names; of more it says how many."""
RUN_WORDS: Final = {RunState.PENDING: "has not begun", RunState.SUCCESS: "done"}


def run_state(run: RunView, took: str = "", *, big: bool = False) -> Markup:
    """The state of a run, and how long it `took`; one that has begun and waits is running, too."""
    kind = "in_progress" if run.state is RunState.RUNNING else run.state.value
    words = RUN_WORDS.get(run.state) or WORDS[kind][1]
    return state(kind, f"{words} {took}".strip(), big=big)


def run_glyph(run: RunView) -> Markup:
    """The glyph of a run's state alone."""
    kind = "in_progress" if run.state is RunState.RUNNING else run.state.value
    return glyph(kind, RUN_WORDS.get(run.state))


def waiting(waits: Sequence[RunWait], times: Times) -> Markup:
    """What a run waits for: `the event “paid” until Fri 27 Nov 09:00, and the action shop.charge`; nothing for none."""
    parts = [_wait(each, times) for each in waits[:NAMED]]
    if len(waits) > NAMED:
        parts.append(Markup("{} more").format(len(waits) - NAMED))
    if not parts:
        return Markup()
    *most, last = parts
    return Markup(", ").join(most) + (Markup(" and ") if most else Markup()) + last


def not_taken(found: RunTimeline, times: Times) -> Markup:
    """The events that a run has not taken: `1 event waits that its code has not taken: “paid”, sent 04:27 by ada.`"""
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
    """What tells steps of one name from one another, by number: the key or attributes of a child, or an argument.

    Of steps whose name stands alone, and of those of which nothing is known, nothing.
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
    """How a step stands."""
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
    """How long a step took, or goes on."""
    if step.duration_ms is not None:
        return length(step.duration_ms)
    end = times.now if run.completed_at is None else from_datetime(run.completed_at)
    return length(max(0, end - from_datetime(step.started_at)))


def run_took(run: RunView, times: Times) -> str:
    """How long a run took, or goes on."""
    end = times.now if run.completed_at is None else from_datetime(run.completed_at)
    return length(max(0, end - from_datetime(run.created_at)))
