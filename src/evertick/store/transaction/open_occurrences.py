"""Open runs and waiting occurrences over SQL: read beside the schedules that have any, written as they change."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from evertick.base.errors import SchemaMismatch
from evertick.base.records.schedules import RunReport
from evertick.rules.schedules.overlap import needs_all_runs
from evertick.rules.schedules.policies import BUFFER_MAX, RUNS_MAX
from evertick.rules.schedules.state import Run
from evertick.rules.schedules.state_json import LISTS
from evertick.store.records.open_occurrences import KEY_COLUMNS, OPEN_COLUMNS, Open, key_row, open_row, read_open
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.driver import Driver, Row

FEW: Final = 200
"""Open runs of a schedule that are always read: only of more it pays to ask for those that matter."""
PLACES: Final = 1 << 20
"""Places in the order for what one write of a schedule opens; the next write takes the next ones."""

_Key = tuple[str, str]


class SqlOpenOccurrences(Driver):
    """What schedules have open, for the contract `Schedules`."""

    def with_open_runs(
        self, schedules: Sequence[Schedule], reports: Sequence[RunReport] | None = None
    ) -> list[Schedule]:
        asking = {
            (row.tenant, row.id): row for row in schedules if LISTS in row.stored_state.text and _is_readable(row)
        }
        if not asking:
            return list(schedules)
        many = {} if reports is None else {key: row for key, row in asking.items() if row.state.open_runs > FEW}
        found = self._all_open([key for key in asking if key not in many])
        read = {key: asking[key].listing(found.get(key, ()), whole=True) for key in asking if key not in many}
        for key, row in many.items():
            read[key] = self._partly_open(
                row, [each for each in reports or () if (each.tenant, each.schedule_id) == key]
            )
        return [read.get((row.tenant, row.id), row) for row in schedules]

    def _all_open(self, keys: Sequence[_Key]) -> dict[_Key, list[Open]]:
        found: dict[_Key, list[Open]] = {}
        for row in self._fetch("open_occurrences", {"keys": json.dumps(keys)}) if keys else ():
            found.setdefault((row[0], row[1]), []).append(read_open(row))
        return found

    def _partly_open(self, schedule: Schedule, reports: Sequence[RunReport]) -> Schedule:
        """The schedule with what waits, the runs that ended, and the oldest of those that stay."""
        waiting = self._first(schedule, waits=1, limit=BUFFER_MAX)
        schedule = schedule.listing(waiting, whole=False)
        if needs_all_runs(schedule.state):
            return schedule.listing([*waiting, *self._first(schedule, waits=0, limit=RUNS_MAX)], whole=True)
        keys = json.dumps([(each.nominal_at, each.origin, each.request) for each in reports])
        named = {"keys": keys, "tenant": schedule.tenant, "schedule_id": schedule.id}
        oldest = self._first(schedule, waits=0, limit=len(reports) + 1)
        ended = [read_open(row) for row in self._fetch("named_open_occurrences", named)] if reports else []
        known = set(oldest)
        return schedule.listing(
            [*waiting, *oldest, *(each for each in ended if isinstance(each, Run) and each not in known)], whole=False
        )

    def _first(self, schedule: Schedule, *, waits: int, limit: int) -> list[Open]:
        which = {"tenant": schedule.tenant, "schedule_id": schedule.id, "waits": waits, "limit": limit}
        return [read_open(row) for row in self._fetch("first_open_occurrences", which)]

    def _write_open(self, schedules: Iterable[Schedule]) -> None:
        """Write what has opened, changed or closed since the schedules were read."""
        opened: list[Row] = []
        closed: list[Row] = []
        for row in schedules:
            if (now := row.open_now) is None or (not now and not row.listed):
                continue
            of, place = (row.tenant, row.id), row.revision * PLACES
            opened += [
                open_row(of, each, place + number)
                for number, (key, each) in enumerate(now.items())
                if row.listed.get(key) != each
            ]
            closed += [key_row(of, key) for key in row.listed if key not in now]
        if closed:
            self._run_many("close_occurrences", KEY_COLUMNS, closed)
        if opened:
            self._run_many("write_open_occurrences", OPEN_COLUMNS, opened)


def _is_readable(row: Schedule) -> bool:
    try:
        return bool(row.state.unlisted.runs or row.state.unlisted.waiting)
    except SchemaMismatch:
        return False  # the evaluator will say so
