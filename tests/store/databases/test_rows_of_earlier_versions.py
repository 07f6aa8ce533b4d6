"""Migrations keep what earlier versions have written: each job, its log and its place in the lists."""

import json
from typing import Any, Final

import pytest

from evertick.base.ids import DEFAULT_POOL, DEFAULT_TENANT, ScheduleId, queue_of
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import JobFilter, JobState
from evertick.base.records.logs import LogLine
from evertick.store import schema
from evertick.store.contract.store import Store, Transaction
from evertick.store.open import open_store
from tests.store.rows import NOW, at, claim, job_id

SCHEDULES: Final = 2
"""The version from which on a job says which schedule it runs for."""
QUEUES: Final = 5
"""The version from which on a pending job stands in a queue."""
HISTORY: Final = 9

SCHEDULE: Final = {
    "v": 1, "id": 'night"ly', "nominal_at": NOW, "origin": "schedule", "request": "", "actual_at": NOW
}  # fmt: skip
LOG: Final = {"lines": [[NOW, "info", "héllo 😀 \\u0000"], [NOW + 1, "error", "two"]], "is_truncated": True}
ODD: Final = {"lines": [[NOW, "info", "odd \0 \ud800 \\"]], "is_truncated": False}
"""What a log may hold, but no database returns as it is."""
JOB: Final = {
    "tenant": "default", "kind": "mutation", "name": "app.send", "args": '{"to":"ann"}', "state": "success",
    "requested_at": NOW, "due_at": NOW, "created_at": NOW, "completed_at": at(9), "attempt": 2, "failures": 1,
    "crashes": 0, "result": '"sent"', "logs": json.dumps(LOG),
}  # fmt: skip


@pytest.fixture
def bare_store(bare_url: str):  # type: ignore[no-untyped-def]
    """A store without a schema."""
    store = open_store(bare_url)
    yield store
    store.close()


def write(store: Store, row: dict[str, Any]) -> None:
    """Write a row of `jobs` as an earlier release did."""
    mark = "?" if store.dialect == "sqlite" else "%s"
    text = f"insert into jobs ({', '.join(row)}) values ({', '.join([mark] * len(row))})"
    store.write(lambda tx: tx.connection.execute(text, tuple(row.values())))


def rows_of(version: int) -> list[dict[str, Any]]:
    """A job in each state, as `version` has them."""
    schedule = {"schedule": json.dumps(SCHEDULE)} if version >= SCHEDULES else {}
    error = json.dumps({"v": 1, "type": "ValueError", "message": "no"})
    unfinished = {"completed_at": None, "attempt": 0, "failures": 0, "result": None, "logs": None}
    queue = {"queue": queue_of(DEFAULT_POOL, "app.send"), "rank": NOW, "size": 12} if version >= QUEUES else {}
    return [
        {"id": job_id(1)} | JOB | schedule,
        {"id": job_id(2)} | JOB | {"state": "failed", "result": None, "error": error, "logs": json.dumps(ODD)},
        {"id": job_id(3)} | JOB | {"state": "canceled", "result": None, "logs": "{broken"},
        {"id": job_id(4)} | JOB | {"state": "pending"} | unfinished | queue | schedule,
        {"id": job_id(5)} | JOB | {"state": "in_progress", "kind": "action", "worker_id": "w"} | unfinished | queue,
    ]


@pytest.mark.parametrize("version", range(1, HISTORY))
def test_a_migration_keeps_what_an_earlier_version_has_written(
    bare_store: Store, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = schema.steps(bare_store.dialect)
    with monkeypatch.context() as then:
        then.setattr(schema, "steps", lambda _: steps[:version])
        bare_store.migrate()
        for row in rows_of(version):
            write(bare_store, row)

    bare_store.migrate()

    def look(tx: Transaction) -> tuple[Any, ...]:
        listed = [job.id for job in tx.list_jobs(JobFilter(), limit=10)]
        found = {job.id: job for job in tx.get_jobs(listed, tenant=DEFAULT_TENANT)}
        scheduled = tx.list_jobs(JobFilter(schedule_id=ScheduleId(SCHEDULE["id"])), limit=10)
        lines = {name: [each.line for each in tx.list_logs(name)] for name in listed}
        return listed, found, [job.id for job in scheduled], lines, tx.count_jobs(DEFAULT_TENANT)

    listed, found, scheduled, lines, counts = bare_store.read(look)
    assert listed == [job_id(n) for n in range(1, 6)]
    assert [job.state for job in found.values()] == [
        JobState.SUCCESS, JobState.FAILED, JobState.CANCELED, JobState.PENDING, JobState.IN_PROGRESS
    ]  # fmt: skip
    sent = found[job_id(1)]
    assert (sent.args, sent.result, sent.attempt, sent.completed_at) == ('{"to":"ann"}', '"sent"', 2, at(9))
    assert found[job_id(2)].error.value.type == "ValueError"
    assert scheduled == ([job_id(1), job_id(4)] if version >= SCHEDULES else [])
    assert counts == {"app.send": JobCounts(pending=1, in_progress=1, success=1, failed=1, canceled=1, not_retried=1)}
    assert lines[job_id(1)][0] == LogLine(0, NOW, "info", "héllo 😀 \\u0000", is_cut=True)
    assert lines[job_id(1)][1] == LogLine(1, at(1), "error", "two", is_cut=True)
    assert [(line.level, line.text[:4], line.text[-1]) for line in lines[job_id(2)]] == [("info", "odd ", "\\")]
    assert not any(lines[name] for name in listed[2:])
    assert [each.id for each in claim(bare_store)] == [job_id(4)]


UNMARKED: Final = 30
"""The version up to which the remembered calls alone said that a job was run again."""


def test_a_migration_marks_the_jobs_that_were_run_again(bare_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = schema.steps(bare_store.dialect)
    with monkeypatch.context() as then:
        then.setattr(schema, "steps", lambda _: steps[:UNMARKED])
        bare_store.migrate()
    row = JOB | {"state": "failed", "result": None, "args": "{}"}
    del row["logs"]
    mark = "?" if bare_store.dialect == "sqlite" else "%s"

    def write_into(tx: Transaction, table: str, row: dict[str, Any]) -> None:
        marks = ", ".join([mark] * len(row))
        tx.connection.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", tuple(row.values()))

    def work(tx: Transaction) -> None:
        for number in (1, 2, 3):
            write_into(tx, "history", row | {"id": job_id(number), "state": "canceled" if number == 3 else "failed"})
        count = {"tenant": "default", "name": "app.send", "unfinished": 0, "success": 0, "failed": 2, "canceled": 1}
        write_into(tx, "job_counts", count)
        for key, tenant in (
            (f"evertick retry {job_id(1)}", "default"), (f"evertick retry {job_id(2)}", "other"),
            (f"evertick retry {job_id(3)}", "default"), ("mine", "default"),
        ):  # fmt: skip
            call = {"tenant": tenant, "key": key, "name": "app.send", "fingerprint": "retry"}
            write_into(tx, "calls", call | {"result": job_id(9), "created_at": NOW})

    bare_store.write(work)
    bare_store.migrate()

    found = bare_store.read(lambda tx: tx.get_jobs([job_id(n) for n in (1, 2, 3)], tenant=DEFAULT_TENANT))
    assert [job.retried_as for job in found] == [job_id(9), None, job_id(9)]
    counts = bare_store.read(lambda tx: tx.count_jobs(DEFAULT_TENANT))
    assert counts == {"app.send": JobCounts(failed=2, canceled=1, not_retried=1)}
    left = bare_store.read(lambda tx: tx.list_jobs(JobFilter(states=(JobState.FAILED,), not_retried=True), limit=9))
    assert [job.id for job in left] == [job_id(2)]
