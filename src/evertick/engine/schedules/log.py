"""Log lines about schedules: for skipped and missed occurrences, and for notes of a plan."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from evertick.base.ids import ScheduleId
from evertick.base.instants import SECOND_MS, to_iso
from evertick.base.records.schedules import OccurrenceRow
from evertick.engine.runtime.metrics import Counters
from evertick.engine.schedules.outcome import Evaluated
from evertick.rules.schedules.fates import Fate, Reason
from evertick.store.records.schedule import Schedule

_logger: Final = logging.getLogger("evertick.schedules")


def log_evaluated(items: Sequence[Evaluated], counters: Counters) -> None:
    """Count the outcomes of occurrences, and log those that an operator should know."""
    counters.add("schedules_evaluated", len(items))
    for fate, count in Counter([row.fate for item in items for row in item.occurrences]).items():
        counters.add(f"occurrences_{fate}", count)
    for observer in counters.schedule_observers:
        for item in items:
            observer.occurrences_decided(item.row.function, item.occurrences)
    for item in items:
        for fate in (Fate.SKIPPED, Fate.MISSED):
            rows = [row for row in item.occurrences if row.fate == fate]
            if rows and not _is_known(item.row, rows[0]):
                _log_not_started(item.row.id, fate, rows)
        for note in item.plan.notes:
            extra = {"schedule_id": item.row.id, "note": note.code.value}
            _logger.info("%s: %s", item.row.id, note.text, extra=extra)


def _is_known(schedule: Schedule, first: OccurrenceRow) -> bool:
    """Whether an earlier line reports that a schedule is paused, perhaps for years: it skipped times before."""
    pause = schedule.state.pause
    if pause is None or first.reason != Reason.PAUSED:
        return False
    earlier = schedule.spec.recurrence.preview(1, pause.at // SECOND_MS)
    return bool(earlier) and earlier[0] * SECOND_MS < first.nominal_at


def _log_not_started(schedule_id: ScheduleId, fate: Fate, rows: Sequence[OccurrenceRow]) -> None:
    _logger.warning(
        "%s %d run(s) of %s, the first of %s: %s",
        "Skipping" if fate is Fate.SKIPPED else "Missing",
        len(rows),
        schedule_id,
        to_iso(rows[0].nominal_at),
        rows[0].detail or rows[0].reason,
        extra={"schedule_id": schedule_id, "fate": fate.value, "count": len(rows)},
    )
