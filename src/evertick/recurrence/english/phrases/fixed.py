"""Phrases that stand for themselves: written and read as they are."""

from typing import Final

from evertick.recurrence.spec.sources import Skip
from evertick.recurrence.spec.spec import Gap, Overlap

NO_SOURCES: Final = "only when triggered"
ELAPSED: Final = "in real time"
FIXED: Final = "by the clock"
SKIPS: Final = {
    Skip.BACKWARD: "on the last day of months that are too short",
    Skip.FORWARD: "on the day after months that are too short",
}
GAPS: Final = {
    Gap.NEXT: "right after the gap when clocks go forward",
    Gap.SHIFT: "shifted when clocks go forward",
    Gap.SKIP: "skipped when clocks go forward",
}
OVERLAPS: Final = {
    Overlap.FIRST: "once when clocks go back",
    Overlap.BOTH: "twice when clocks go back",
    Overlap.LAST: "in the second pass when clocks go back",
}
