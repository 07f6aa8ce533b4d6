"""What a run waits for, and the events that wait for it, in words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from evertick.base.records.workflows import CallKind
from evertick.cli.core.output import MomentWriter

if TYPE_CHECKING:
    from evertick.api.workflows import RunDetails, RunWait, WaitingEvent

NAMED: Final = 3
"""Calls that are named; of more it is said how many."""


def words_of_waits(waits: "Sequence[RunWait]", moment: MomentWriter) -> str:
    """What a run waits for: `event paid until 2026-11-27T09:00:00Z, action shop.charge`; empty for nothing."""
    named = [_words(each, moment) for each in waits[:NAMED]]
    return ", ".join([*named, f"{len(waits) - NAMED:,} more"] if len(waits) > NAMED else named)


def words_of_events(run: "RunDetails", moment: MomentWriter) -> str:
    """The events that a run has not taken: `decison (sent 04:27, 13 characters)`, a line each; empty for none."""
    lines = [
        f"{each.name} (sent {moment(each.sent_at)}{_by(each)}, {each.size:,} characters)" for each in run.waiting_events
    ]
    left = run.waiting_event_count - len(lines)
    return "\n".join([*lines, f"and {left:,} more"] if left else lines)


def note_of_events(run: "RunDetails", moment: MomentWriter) -> str:
    """A sentence about the events that a run has not taken; empty for none."""
    count = run.waiting_event_count
    if not count:
        return ""
    named = [f"{each.name}, sent {moment(each.sent_at)}{_by(each)}" for each in run.waiting_events[:NAMED]]
    named += [f"{count - NAMED:,} more"] if count > NAMED else []
    what = "1 event waits" if count == 1 else f"{count:,} events wait"
    return f"{what}, not taken by its code: {'; '.join(named)}"


def _by(event: "WaitingEvent") -> str:
    return "" if event.sent_by is None else f" by {event.sent_by}"


def _words(wait: "RunWait", moment: MomentWriter) -> str:
    name = "" if wait.kind in (CallKind.SLEEP, CallKind.TIMER) else f" {wait.name}"
    until = "" if wait.until is None else f" until {moment(wait.until)}"
    return f"{wait.kind}{name}{until}{'' if wait.held is None else f' ({wait.held})'}"
