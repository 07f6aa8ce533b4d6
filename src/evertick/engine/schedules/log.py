"""What is said about schedules: a line for skipped and missed occurrences, and for what a plan noted."""

import logging
from collections import Counter
from typing import Final

from evertick.base.instants import to_iso
from evertick.engine.runtime.metrics import Counters
from evertick.engine.schedules.outcome import Evaluated
from evertick.rules.schedules.fates import Fate

_logger: Final = logging.getLogger("evertick.schedules")


def log_evaluated(item: Evaluated, counters: Counters) -> None:
    """Count what became of occurrences, and log what an operator should know."""
    fates: Counter[str] = Counter(row.fate for row in item.occurrences)
    for fate, count in fates.items():
        counters.add(f"occurrences_{fate}", count)
    for observer in counters.schedule_observers:
        observer.occurrences_decided(item.row.function, item.occurrences)
    for fate in (Fate.SKIPPED, Fate.MISSED):
        rows = [row for row in item.occurrences if row.fate == fate]
        if rows:
            _logger.warning(
                "%s %d run(s) of %s, the first of %s: %s",
                "Skipping" if fate is Fate.SKIPPED else "Missing",
                len(rows),
                item.row.id,
                to_iso(rows[0].nominal_at),
                rows[0].detail or rows[0].reason,
                extra={"schedule_id": item.row.id, "fate": fate.value, "count": len(rows)},
            )
    for note in item.plan.notes:
        _logger.info("%s: %s", item.row.id, note.text, extra={"schedule_id": item.row.id, "note": note.code.value})
