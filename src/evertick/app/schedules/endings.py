"""How occurrences ended, in the words of strips and calendars."""

from evertick.base.records.schedules import RunEnding
from evertick.rules.schedules.catch_up import started_late
from evertick.rules.schedules.fates import FAILURES, Fate, RunOutcome


def ending_word(ending: RunEnding) -> str:
    """How an occurrence ended, in a word of strips."""
    if ending.fate != Fate.STARTED:
        return "queued" if ending.fate == Fate.BUFFERED else ending.fate
    if ending.outcome is None:
        return "running"
    if ending.outcome == RunOutcome.SUCCESS:
        return "late" if started_late(ending.origin, ending.late_ms) else "ok"
    return "failed" if ending.outcome in FAILURES else "canceled"
