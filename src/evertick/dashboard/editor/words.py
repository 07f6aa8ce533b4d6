"""Policies in words, as the editor explains them."""

from typing import Final

from evertick.rules.schedules.overlap import STOPS_OTHERS
from evertick.rules.schedules.policies import CatchUp, Overlap

OVERLAPS: Final = {
    Overlap.SKIP: "The time is skipped.",
    Overlap.BUFFER_ONE: "One time waits and starts when the run ends; further ones are skipped.",
    Overlap.BUFFER_ALL: "Every time waits its turn, as many as may wait; they start one after the other.",
    Overlap.CANCEL_OTHER: "The run is asked to cancel, cleans up, and then the time starts.",
    Overlap.TERMINATE_OTHER: "The run is stopped at once, without cleaning up, and then the time starts.",
    Overlap.ALLOW_ALL: "The time starts beside it; any number may run at once.",
}
"""What becomes of a time while an earlier run goes on."""
ALL_LATE: Final = {
    Overlap.SKIP: "Inside the window only the oldest{limit} start{s}; the others meet {it} and do not run.",
    Overlap.BUFFER_ONE: "Inside the window the oldest{limit} start{s} and the next one waits; the others do not run.",
    Overlap.BUFFER_ALL: "Every time inside the window runs, the oldest first, {at_once} at a time.",
    Overlap.CANCEL_OTHER: "Inside the window only the newest{limit} start{s}, in place of the others.",
    Overlap.TERMINATE_OTHER: "Inside the window only the newest{limit} start{s}, in place of the others.",
    Overlap.ALLOW_ALL: "Every time inside the window starts, all at once.",
}
"""What catch-up `all` means with each overlap policy, for times that are late together and no run that is open."""
MEETS_RUN: Final = {
    Overlap.SKIP: "The newest starts, unless an earlier run still goes on.",
    Overlap.BUFFER_ONE: "The newest starts, after an earlier run if one still goes on.",
    Overlap.BUFFER_ALL: "The newest starts, after an earlier run if one still goes on.",
    Overlap.CANCEL_OTHER: "The newest starts; an earlier run that still goes on is asked to cancel first.",
    Overlap.TERMINATE_OTHER: "The newest starts; an earlier run that still goes on is stopped first.",
    Overlap.ALLOW_ALL: "The newest starts, whatever still goes on.",
}
"""What becomes of a single late time."""
GAPS: Final = {
    "": "runs as is usual for this kind of times",
    "next": "runs right after the gap: 02:30 runs at 03:00",
    "shift": "runs later by as much: 02:30 runs at 03:30",
    "skip": "does not run on that day",
}
"""When the clocks go forward, and a time does not exist."""
REPEATED: Final = {
    "": "runs as is usual for this kind of times",
    "first": "runs the first time only",
    "both": "runs both times",
    "last": "runs the second time only",
}
"""When the clocks go back, and a time comes twice."""
CHOICES: Final = {"overlaps": OVERLAPS, "gaps": GAPS, "repeated": REPEATED}
"""What the form explains, by the name that its template has for it."""
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
"""The members of a draft, as the form calls them."""


def catch_ups(overlap: str, limit: int) -> dict[CatchUp, str]:
    """What becomes of the times that passed during an outage, with an overlap policy and a number of open runs."""
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
        CatchUp.NONE: "None that is over 10 s late starts; these are recorded as missed.",
    }
