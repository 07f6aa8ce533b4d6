"""States: a glyph, a word and a colour for each, the same on every page. Colour is spent on nothing else."""

from typing import Any, Final

from markupsafe import Markup

from evertick.dashboard.markup.filling import filled
from evertick.rules.schedules.fates import Fate, Reason

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
"""The class of a state's colour and glyph in `dash.css`, and its word for people."""
REASONS: Final[dict[Reason, str]] = {
    Reason.ON_TIME: "started on time",
    Reason.CAUGHT_UP: "started late, caught up after a delay",
    Reason.AFTER_WAIT: "started after an earlier run had ended",
    Reason.TRIGGERED: "started by a trigger",
    Reason.BACKFILLED: "started by a backfill",
    Reason.BEHIND_RUN: "waits for an earlier run",
    Reason.STOPPING_RUN: "waits until earlier runs have stopped",
    Reason.OVERLAP: "an earlier run was still going on",
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
    Reason.RUNS_FULL: "too many runs were going on",
    Reason.START_REFUSED: "the run could not be started",
}
"""A reason of the ledger, as it stands after its fate."""


def state(kind: str, word: str | None = None, *, big: bool = False) -> Markup:
    """A state with its glyph and word; `big` is for the head of a page. `kind` is a state, or a class of `dash.css`."""
    css, usual = WORDS.get(kind, (kind, kind))
    return filled('<span class="st {}{}">{}</span>', css, " big" if big else "", usual if word is None else word)


def glyph(kind: str, word: str | None = None) -> Markup:
    """The glyph alone; its word is for those who cannot see it."""
    css, usual = WORDS.get(kind, (kind, kind))
    return filled('<span class="st g {}"><span class="vh">{}</span></span>', css, usual if word is None else word)


def outcome_of(occurrence: Any) -> str:
    """The state of an occurrence in one word, from its fate and how its run ended: `ok`, `late`, `missed` ..."""
    if occurrence.fate is not Fate.STARTED:
        return {Fate.BUFFERED: "queued", Fate.SKIPPED: "skipped", Fate.MISSED: "missed"}[occurrence.fate]
    if occurrence.outcome is None:
        return "running" if occurrence.ended is None else "ok"
    if occurrence.outcome == "success":
        return "late" if occurrence.is_late else "ok"
    return WORDS.get(str(occurrence.outcome), ("failed", ""))[0]
