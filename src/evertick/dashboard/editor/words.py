"""Policies in words, as the editor explains them."""

from typing import Final

from evertick.rules.schedules.policies import CatchUp, Overlap

OVERLAPS: Final = {
    Overlap.SKIP: "The time is skipped.",
    Overlap.BUFFER_ONE: "One time waits and starts when the run ends; further ones are skipped.",
    Overlap.BUFFER_ALL: "Every time waits its turn; they start one after the other.",
    Overlap.CANCEL_OTHER: "The run is asked to cancel, cleans up, and then the time starts.",
    Overlap.TERMINATE_OTHER: "The run is stopped at once, without cleaning up, and then the time starts.",
    Overlap.ALLOW_ALL: "The time starts beside it; any number may run at once.",
}
"""What becomes of a time while an earlier run goes on."""
CATCH_UPS: Final = {
    CatchUp.ALL: "Every time inside the window starts, in order.",
    CatchUp.LATEST: "Only the newest of them starts; the others are recorded as missed.",
    CatchUp.NONE: "None of them starts; they are recorded as missed.",
}
"""What becomes of the times that passed during an outage."""
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
CHOICES: Final = {"overlaps": OVERLAPS, "catch_ups": CATCH_UPS, "gaps": GAPS, "repeated": REPEATED}
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
