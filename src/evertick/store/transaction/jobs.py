"""Jobs over SQL: written, read, stopped and removed."""

import json
from collections.abc import Sequence
from typing import Final

from evertick.base.ids import DEFAULT_POOL, JobId, TenantId, queue_of
from evertick.base.instants import Instant
from evertick.base.records.jobs import (
    COMPLETION,
    JOB_ERROR,
    OCCURRENCE,
    PRIORITY_MS,
    CanceledJob,
    FunctionKind,
    Job,
    JobFilter,
    JobState,
    NewJob,
    Stop,
)
from evertick.base.records.retry import RETRY
from evertick.base.records.stored import size_of, text_of
from evertick.store.contract.notifications import DUE, Notification
from evertick.store.transaction.driver import Driver, Row

_KINDS: Final = {kind.value: kind for kind in FunctionKind}
_STATES: Final = {state.value: state for state in JobState}
_HIGHEST_ID: Final = "\x7f"

HINT_WINDOW_MS: Final = 5_000
"""Workers look by themselves at least this often, so only jobs due sooner are worth a hint."""

NEW_JOB_COLUMNS: Final = (
    "id", "tenant", "kind", "name", "args", "state", "requested_at", "due_at", "created_at", "completed_at",
    "parent_id", "key", "retry", "on_complete", "schedule", "pool", "queue", "stage", "priority", "rank", "size",
)  # fmt: skip


class SqlJobs(Driver):
    """The contract `Jobs`."""

    hints: set[Notification]

    def insert_jobs(self, jobs: Sequence[NewJob]) -> None:
        if not jobs:
            return
        for job in jobs:
            if job.state is not JobState.CANCELED and job.due_at < job.created_at + HINT_WINDOW_MS:
                self.hints.add(DUE[job.kind])
        self._run_many("insert_jobs", NEW_JOB_COLUMNS, [new_job_row(job) for job in jobs])

    def get_job(self, job_id: JobId, *, tenant: TenantId) -> Job | None:
        rows = self._fetch("get_job", {"id": job_id, "tenant": tenant})
        return _job(rows[0]) if rows else None

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[Job]:
        params = {
            "tenant": where.tenant,
            "states": f",{','.join(where.states)}," if where.states else None,
            "name": where.name,
            "due_from": where.due_from,
            "due_until": where.due_until,
            "limit": limit,
        }
        if newest_first:
            rows = self._fetch("list_jobs_newest", params | {"before": after or _HIGHEST_ID})
        else:
            rows = self._fetch("list_jobs", params | {"after": after or ""})
        return [_job(row) for row in rows]

    def count_jobs(self, tenant: TenantId) -> dict[str, int]:
        counts = dict.fromkeys(_STATES, 0)
        for state, kind, count in self._fetch("count_jobs", {"tenant": tenant}):
            hidden = state == JobState.IN_PROGRESS and kind == FunctionKind.MUTATION
            counts[JobState.PENDING.value if hidden else state] += count
        return counts

    def find_unfinished_key(self, key: str, *, tenant: TenantId) -> JobId | None:
        rows = self._fetch("find_unfinished_key", {"key": key, "tenant": tenant})
        return rows[0][0] if rows else None

    def cancel_job(
        self, job_id: JobId, *, tenant: TenantId, now: Instant, stop: Stop = Stop.CANCEL
    ) -> CanceledJob | None:
        rows = self._fetch("cancel_job", {"id": job_id, "tenant": tenant, "now": now, "stop": stop.value})
        if not rows:
            return None
        [(state, on_complete, schedule)] = rows
        still_runs = state == JobState.IN_PROGRESS
        if still_runs:
            self.hints.add(Notification.STOP)
        return CanceledJob(COMPLETION.optional(on_complete), OCCURRENCE.optional(schedule), still_runs)

    def reschedule_job(self, job_id: JobId, *, tenant: TenantId, due_at: Instant, now: Instant) -> bool:
        rows = self._fetch("reschedule_job", {"id": job_id, "tenant": tenant, "due_at": due_at})
        if rows and due_at < now + HINT_WINDOW_MS:
            self.hints.add(DUE[FunctionKind(rows[0][0])])
        return bool(rows)

    def stops_asked(self, ids: Sequence[JobId]) -> dict[JobId, Stop]:
        rows = self._fetch("stops_asked", {"ids": json.dumps(list(ids))}) if ids else []
        return {row[0]: Stop(row[1]) for row in rows}

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        return self._run("prune_jobs", {"before": before, "limit": limit})


def new_job_row(job: NewJob) -> Row:
    """A NewJob in the order of NEW_JOB_COLUMNS."""
    return (
        job.id, job.tenant, job.kind.value, job.name, job.args, job.state.value, job.requested_at, job.due_at,
        job.created_at, job.created_at if job.state is JobState.CANCELED else None, job.parent_id, job.key,
        text_of(job.retry), text_of(job.on_complete), text_of(job.schedule),
        None if job.pool == DEFAULT_POOL else job.pool, queue_of(job.pool, job.name),
        "ready" if job.due_at <= job.created_at else "waiting", job.priority,
        job.due_at - job.priority * PRIORITY_MS, size_of(job.args),
    )  # fmt: skip


def _job(r: Row) -> Job:
    return Job(
        id=r[0], tenant=r[1], kind=_KINDS[r[2]], name=r[3], args=r[4], state=_STATES[r[5]],
        requested_at=r[6], due_at=r[7], created_at=r[8], completed_at=r[9],
        attempt=r[10], failures=r[11], crashes=r[12], worker_id=r[13], parent_id=r[14], key=r[15],
        retry=RETRY.optional(r[16]), on_complete=COMPLETION.optional(r[17]), result=r[18],
        error=JOB_ERROR.optional(r[19]), logs=r[20], schedule=OCCURRENCE.optional(r[21]), stop=Stop(r[22]),
        pool=r[23] or DEFAULT_POOL, priority=r[24],
    )  # fmt: skip
