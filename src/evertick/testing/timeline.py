"""Timelines: the occurrences of a schedule, drawn with letters, for the analysis of failing tests and for the docs.

    time  1     2     3     4     5
    1     S==============|
    2           .........S====
    3                 x  overlap

Each occurrence has a row. `S` is a start, `=` a continuing run, `|` its end; `f` a failure, `c` a request to stop, `t`
a termination. `b` is a blocked run: the worker does not have its function. `.` waits for a run, `~` for a worker (an
outage), and `x` did not run, for the reason after it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from evertick.api.schedules import OccurrenceView
from evertick.base.ids import JobId
from evertick.rules.schedules.fates import FAILURES, Fate, Origin, Reason, RunOutcome

CELLS: Final = 6
"""The number of letters for a unit of time."""

AT_ONCE: Final = frozenset({Reason.PAUSED, Reason.LIMIT})
"""Reasons that apply at the nominal time, although they can be recorded later."""

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The frame of a drawing: from the unit of the first time until `now`.

    Units are counted from `origin`. `outages` are spans without a live worker; `stops` are the times of requests to
    stop by job id, `asked` those of backfills by their ids; `blocked` are jobs that no worker can run.
    """

    origin: datetime
    now: datetime
    unit: timedelta
    outages: Collection[Span] = ()
    stops: Mapping[JobId, datetime]
    asked: Mapping[str, datetime]
    blocked: Collection[JobId] = ()

    def draw(self, occurrences: Sequence[OccurrenceView]) -> str:
        """The drawing, without spaces at the ends of lines."""
        rows = sorted(occurrences, key=lambda each: (self._arrived(each), each.nominal))
        first = min((self._cell(self._arrived(each)) for each in rows), default=self._cell(self.now)) // CELLS * CELLS
        labels = [self._label(each) for each in rows]
        width = max(map(len, ["time", *labels])) + 2
        axis = "".join(f"{cell // CELLS:<{CELLS}}" for cell in range(first, self._cell(self.now) + 1, CELLS))
        lines = [f"{'time':<{width}}{axis}"]
        lines += [f"{label:<{width}}{self._row(each)[first:]}" for label, each in zip(labels, rows, strict=True)]
        return "\n".join(line.rstrip() for line in lines)

    def _row(self, occurrence: OccurrenceView) -> str:
        arrived = self._cell(self._arrived(occurrence))
        if occurrence.fate is Fate.STARTED:
            begun = self._cell(occurrence.started or occurrence.decided)
            tail = self._run(occurrence, begun)
        elif occurrence.fate is Fate.BUFFERED:
            begun, tail = self._cell(self.now), ""
        else:
            begun = arrived if occurrence.reason in AT_ONCE else self._cell(occurrence.decided)
            tail = f"x  {occurrence.reason}"
        waited = "".join("~" if self._is_outage(cell) else "." for cell in range(arrived, begun))
        return " " * arrived + waited + tail

    def _run(self, occurrence: OccurrenceView, begun: int) -> str:
        ended = self._cell(occurrence.ended or self.now)
        goes_on = "b" if occurrence.job_id in self.blocked else "="
        letters = ["S", *goes_on * max(0, ended - begun - 1)]
        asked = None if occurrence.job_id is None else self.stops.get(occurrence.job_id)
        if asked is not None and occurrence.outcome is not RunOutcome.TERMINATED:
            place = self._cell(asked) - begun
            if 0 < place < len(letters):
                letters[place] = "c"
        return "".join(letters) + _end(occurrence.outcome)

    def _cell(self, moment: datetime) -> int:
        return (moment - self.origin) * CELLS // self.unit

    def _is_outage(self, cell: int) -> bool:
        # A cell is a span of time; its middle counts.
        middle = self.origin + (2 * cell + 1) * self.unit / (2 * CELLS)
        return any(start <= middle < end for start, end in self.outages)

    def _arrived(self, occurrence: OccurrenceView) -> datetime:
        """The time at which its row begins. For a backfill, whose time is past, it is the time of the request."""
        if occurrence.origin is Origin.BACKFILL:
            return self.asked.get(occurrence.request, occurrence.started or occurrence.decided)
        return occurrence.actual

    def _label(self, occurrence: OccurrenceView) -> str:
        if occurrence.origin is Origin.TRIGGER:
            return "trigger"
        number = f"{(occurrence.nominal - self.origin) / self.unit:g}"
        return f"backfill {number}" if occurrence.origin is Origin.BACKFILL else number


def _end(outcome: RunOutcome | None) -> str:
    if outcome is None:
        return ""
    if outcome in FAILURES:
        return "f"
    return "t" if outcome is RunOutcome.TERMINATED else "|"
