"""Explanations of policies in the editor."""

from typing import Final

from evertick.rules.schedules.overlap import STOPS_OTHERS
from evertick.rules.schedules.policies import CatchUp, Overlap

OVERLAPS: Final = {
    Overlap.SKIP: "The time is skipped.",
    Overlap.BUFFER_ONE: "One time waits and starts when the run ends; further times are skipped.",
    Overlap.BUFFER_ALL: "Every time waits, up to the limit; they start one after another.",
    Overlap.CANCEL_OTHER: "The run is asked to cancel, cleans up, and then the time starts.",
    Overlap.TERMINATE_OTHER: "The run is stopped at once, without cleaning up, and then the time starts.",
    Overlap.ALLOW_ALL: "The time starts as well; any number may run concurrently.",
}
"""What happens to a time while an earlier run is running."""
ALL_LATE: Final = {
    Overlap.SKIP: "Inside the window only the oldest{limit} start{s}; the others overlap {it} and do not run.",
    Overlap.BUFFER_ONE: "Inside the window the oldest{limit} start{s} and the next one waits; the others do not run.",
    Overlap.BUFFER_ALL: "Every time inside the window runs, the oldest first, {at_once} at a time.",
    Overlap.CANCEL_OTHER: "Inside the window only the newest{limit} start{s}, in place of the others.",
    Overlap.TERMINATE_OTHER: "Inside the window only the newest{limit} start{s}, in place of the others.",
    Overlap.ALLOW_ALL: "Every time inside the window starts, all at once.",
}
"""The effect of catch-up `all` with each overlap policy, for times that are late together while no run is open."""
MEETS_RUN: Final = {
    Overlap.SKIP: "The newest starts, unless an earlier run is still running.",
    Overlap.BUFFER_ONE: "The newest starts, after an earlier run if one is still running.",
    Overlap.BUFFER_ALL: "The newest starts, after an earlier run if one is still running.",
    Overlap.CANCEL_OTHER: "The newest starts; an earlier run is asked to cancel first.",
    Overlap.TERMINATE_OTHER: "The newest starts; an earlier run is stopped first.",
    Overlap.ALLOW_ALL: "The newest starts, whatever is still running.",
}
"""What happens to a single late time."""
GAPS: Final = {
    "": "runs by the default for this kind of times",
    "next": "runs directly after the gap: 02:30 runs at 03:00",
    "shift": "runs later by the length of the gap: 02:30 runs at 03:30",
    "skip": "does not run on that day",
}
"""When the clocks go forward and a time does not exist."""
REPEATED: Final = {
    "": "runs by the default for this kind of times",
    "first": "runs only the first time",
    "both": "runs both times",
    "last": "runs only the second time",
}
"""When the clocks go back and a time occurs twice."""
CHOICES: Final = {"overlaps": OVERLAPS, "gaps": GAPS, "repeated": REPEATED}
"""The explanations, by their names in the form's template."""
MEMBERS: Final = {
    "sources": "Times",
    "excepted": "Exceptions",
    "time_zone": "Zone",
    "time_zone_data": "Zone data",
    "start": "From",
    "end": "To",
    "jitter": "Jitter",
    "dst": "Clock changes",
    "dialect": "Dialect",
    "function": "Function",
    "args": "Arguments",
    "overlap": "Overlap",
    "concurrency_limit": "Runs at a time",
    "catch_up": "Catch-up",
    "catch_up_window": "Catch-up window",
    "pause_on_failure": "Pause on failure",
    "buffer_limit": "Waiting at most",
    "run_timeout": "Run timeout",
    "retry": "Retry",
    "remaining_actions": "Runs left",
    "workflow_id": "Run name stem",
    "run_id_template": "Run names",
    "note": "Note",
    "memo": "Memo",
}
"""The labels of a draft's members."""


def catch_ups(overlap: str, limit: int) -> dict[CatchUp, str]:
    """What happens to the times during an outage, with an overlap policy and a number of open runs."""
    many = limit > 1 and overlap in (Overlap.SKIP, Overlap.BUFFER_ONE, *STOPS_OTHERS)
    words = ALL_LATE[Overlap(overlap)].format(
        limit=f" {limit}" if many else "",
        s="" if many else "s",
        it="these runs" if many else "its run",
        at_once="one" if limit == 1 else f"at most {limit}",
    )
    return {
        CatchUp.ALL: words,
        CatchUp.LATEST: f"All but the newest are recorded as missed. {MEETS_RUN[Overlap(overlap)]}",
        CatchUp.NONE: "Times that are over 10 s late do not start; they are recorded as missed.",
    }
