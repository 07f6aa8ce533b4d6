"""Rows of schedules for the store's tests: everything has a value, and a test names only what it is about."""

import dataclasses
from typing import Any

from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId
from evertick.base.records.schedules import HistoryRow, OccurrenceFilter, OccurrenceRow, RunReport
from evertick.rules.schedules.state import new_state
from evertick.store.records.schedule import METADATA, STATE, TARGET, Schedule, StoredSpec
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import NOW, at, job_id


def schedule(name: str = "s1", **changes: Any) -> Schedule:
    """A schedule that wants to be looked at NOW, with `changes`."""
    row = Schedule(
        tenant=DEFAULT_TENANT,
        id=ScheduleId(name),
        kind="schedule",
        spec=StoredSpec('{"crons":["* * * * *"]}'),
        stored_target=TARGET.text('{"name":"app.report","kind":"mutation","args":{}}'),
        function="app.report",
        stored_state=STATE.value(new_state(now=NOW, run_id_template="")),
        status="active",
        note="",
        stored_metadata=METADATA.text("{}"),
        seen_until=NOW,
        wake_at=NOW,
        next_at=at(60_000),
        last_at=None,
        last_result=None,
        last_failure=None,
        version=1,
        revision=1,
        created_at=NOW,
        updated_at=NOW,
    )
    return row._replace(**changes)


def occurrence(minute: int = 1, name: str = "s1", **changes: Any) -> OccurrenceRow:
    """A started occurrence of minute `minute`, with `changes`."""
    moment = at(minute * 60_000)
    row = OccurrenceRow(
        tenant=DEFAULT_TENANT,
        schedule_id=ScheduleId(name),
        nominal_at=moment,
        origin="schedule",
        request="",
        actual_at=moment,
        fate="started",
        reason="on_time",
        detail="",
        decided_at=moment,
        run_id=f"run-{minute}",
        job_id=job_id(minute),
        started_at=moment,
    )
    return row._replace(**changes)


def waiting(minute: int = 1, name: str = "s1", **changes: Any) -> OccurrenceRow:
    """An occurrence that waits, with `changes`."""
    own = {"fate": "buffered", "reason": "behind_run", "run_id": None, "job_id": None, "started_at": None}
    return occurrence(minute, name, **{**own, **changes})


def report(number: int = 1, name: str = "s1", **changes: Any) -> RunReport:
    """Job number `number` ended well, as the occurrence of that minute, with `changes`."""
    row = RunReport(
        job_id=job_id(number),
        tenant=DEFAULT_TENANT,
        schedule_id=ScheduleId(name),
        nominal_at=at(number * 60_000),
        origin="schedule",
        request="",
        ended_at=at(number * 60_000 + 5),
        outcome="success",
        result='"done"',
        message="",
    )
    return row._replace(**changes)


def line(number: int, name: str = "s1", **changes: Any) -> HistoryRow:
    """A line of a history, with `changes`."""
    row = HistoryRow(
        id=f"history_{at(number):012x}{0:016x}",
        tenant=DEFAULT_TENANT,
        schedule_id=ScheduleId(name),
        at=at(number),
        actor="ann",
        action="paused",
        detail="",
    )
    return dataclasses.replace(row, **changes)


def add(store: Store, *rows: Schedule) -> None:
    """Write schedules in a transaction of their own."""

    def work(tx: Transaction) -> None:
        for row in rows:
            tx.insert_schedule(row)

    store.write(work)


def record(store: Store, *rows: OccurrenceRow) -> int:
    """Write fates in a transaction of their own."""
    return store.write(lambda tx: tx.record_occurrences(rows))


def ledger(store: Store, where: OccurrenceFilter | None = None, **options: Any) -> list[OccurrenceRow]:
    """The ledger, or a part of it."""
    return store.read(lambda tx: tx.list_occurrences(where or OccurrenceFilter(), **({"limit": 1_000} | options)))


def minutes(rows: list[OccurrenceRow]) -> list[int]:
    """The minutes of rows."""
    return [(row.nominal_at - NOW) // 60_000 for row in rows]


def ids(rows: list[Schedule]) -> list[str]:
    """The names of schedules."""
    return [str(row.id) for row in rows]


def job_numbers(reports: list[RunReport]) -> list[JobId]:
    """Whose reports these are."""
    return [each.job_id for each in reports]
