"""Jobs over SQL: written, read and stopped; and claimed and ended by a worker."""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import DEFAULT_POOL, JobId, QueueId, ScheduleId, TenantId, WorkerId, queue_of
from evertick.base.instants import Instant
from evertick.base.outcomes import LOST_WORKER
from evertick.base.records.jobs import (
    BY_RANK,
    COMPLETION,
    JOB_ERROR,
    OCCURRENCE,
    PRIORITY_MS,
    RETRY,
    CanceledJob,
    Claim,
    FunctionKind,
    Job,
    JobEnd,
    JobError,
    JobState,
    JobSummary,
    NewJob,
    OccurrenceRef,
    Stop,
)
from evertick.base.records.stored import Stored, size_of, text_of
from evertick.store.notifications import DUE, Notification
from evertick.store.records.claims import START, OldestJob, Share, Suspect
from evertick.store.transaction.statement_runner import Driver, Row

_KINDS: Final = {kind.value: kind for kind in FunctionKind}
_STOPS: Final[Mapping[int, Stop]] = {stop.value: stop for stop in Stop}
_STATES: Final = {state.value: state for state in JobState}

HINT_WINDOW_MS: Final = 5_000
"""Workers poll at least this often, so only jobs that are due sooner need a hint."""

BODY_CHARS: Final = 1_024
"""Longer arguments are stored apart from their job, so that a claim, an end and a list need not read them: with 10 kB
of arguments, jobs were worked off twice as fast on PostgreSQL and five times as fast on SQLite."""

NEW_JOB_COLUMNS: Final = (
    "id", "tenant", "kind", "name", "args", "state", "requested_at", "due_at", "created_at", "parent_id", "key",
    "retry", "on_complete", "schedule_id", "schedule", "pool", "queue", "stage", "priority", "rank", "size",
    "limit_key", "trace",
)  # fmt: skip
ARGS_COLUMN: Final = NEW_JOB_COLUMNS.index("args")
SIZE_COLUMN: Final = NEW_JOB_COLUMNS.index("size")
_ARGS_FIELD: Final = NewJob._fields.index("args")


CANCELED_COLUMNS: Final = (
    "id", "tenant", "kind", "name", "args", "state", "requested_at", "due_at", "created_at", "parent_id", "key",
    "schedule_id", "schedule", "completed_at", "pool", "priority", "retry", "on_complete",
    "limit_key", "attempt", "failures", "crashes",
)  # fmt: skip


# Kept counts. SQLite has one writer and changes the row of a count in place. On PostgreSQL two transactions would wait
# for each other there, and two SERIALIZABLE ones conflict; so a change is a row that is only inserted, and `sum_counts`
# adds such rows to the count later. Both belong to the transaction that they count: a rollback or a crash undoes them.
FINISHED: Final = (JobState.SUCCESS, JobState.FAILED, JobState.CANCELED)
COUNT_COLUMNS: Final = ("tenant", "name", "unfinished", "success", "failed", "canceled", "retried")


class Jobs(Driver):
    """Writing, reading and stopping jobs."""

    hints: set[Notification]

    @abstractmethod
    def _write_jobs(self, rows: Sequence[Row], bodies: Sequence[Row]) -> None:
        """Write rows of NEW_JOB_COLUMNS, large arguments by id, and their counts: all of it, or nothing."""

    def insert_jobs(self, jobs: Sequence[NewJob]) -> None:
        """Write scheduled calls. Raises WriteConflict if another unfinished job holds one of their keys."""
        canceled = [job for job in jobs if job.state is JobState.CANCELED]
        if canceled:
            self._insert_canceled(canceled)
            jobs = [job for job in jobs if job.state is not JobState.CANCELED]
        if not jobs:
            return
        self.hints.update({DUE[job.kind] for job in jobs if job.due_at < job.created_at + HINT_WINDOW_MS})
        bodies = [(job.id, job.args) for job in jobs if len(job.args) > BODY_CHARS]
        self._write_jobs(_new_job_rows(jobs), bodies)

    def _insert_canceled(self, jobs: Sequence[NewJob]) -> None:
        """Write jobs that a canceled one has scheduled: they are canceled from the start."""
        rows = [
            (
                job.id, job.tenant, job.kind.value, job.name, job.args, job.state.value, job.requested_at, job.due_at,
                job.created_at, job.parent_id, job.key, None if job.schedule is None else _schedule_of(job.schedule),
                text_of(job.schedule), job.created_at, _pool_of(job), job.priority, text_of(job.retry),
                text_of(job.on_complete), job.limit_key, 0, 0, 0,
            )
            for job in jobs
        ]  # fmt: skip
        self._run_many("insert_canceled", CANCELED_COLUMNS, rows)
        counts = Counter((job.tenant, job.name) for job in jobs)
        self._change_counts((*place, 0, 0, 0, count, 0) for place, count in sorted(counts.items()))

    def _change_counts(self, counts: Iterable[Row]) -> None:
        """Write the changes of functions' counts: rows of COUNT_COLUMNS."""
        self._run_many("change_counts", COUNT_COLUMNS, list(counts))

    def get_job(self, job_id: JobId, *, tenant: TenantId) -> Job | None:
        """One job; None if there is none."""
        return next(iter(self.get_jobs([job_id], tenant=tenant)), None)

    def get_jobs(self, ids: Sequence[JobId], *, tenant: TenantId) -> list[Job]:
        """Whole jobs, in the order of their ids. Those that do not exist are omitted."""
        rows = self._fetch("get_jobs", {"ids": json.dumps(list(ids)), "tenant": tenant})
        return [_job(row) for row in sorted(rows)]

    def find_unfinished_key(self, key: str, *, tenant: TenantId) -> JobId | None:
        """The unfinished job that has `key`; None if there is none."""
        rows = self._fetch("find_unfinished_key", {"key": key, "tenant": tenant})
        return rows[0][0] if rows else None

    def unfinished_keys(self, keys: Collection[str], *, tenant: TenantId) -> set[str]:
        """The keys that unfinished jobs have."""
        rows = self._fetch("unfinished_keys", {"keys": json.dumps(list(keys)), "tenant": tenant}) if keys else []
        return {key for (key,) in rows}

    def cancel_job(
        self, job_id: JobId, *, tenant: TenantId, now: Instant, stop: Stop = Stop.CANCEL
    ) -> CanceledJob | None:
        """End an unfinished job, or ask its running action to stop: then only the end of the function ends the job.

        Return what follows from its end; None if the job had ended.
        """
        return self.cancel_jobs([job_id], tenant=tenant, now=now, stop=stop).get(job_id)

    def cancel_jobs(
        self, ids: Sequence[JobId], *, tenant: TenantId, now: Instant, stop: Stop = Stop.CANCEL
    ) -> dict[JobId, CanceledJob]:
        """Cancel many jobs as `cancel_job` does. Return those that were unfinished, by id."""
        if not ids:
            return {}
        rows = self._cancel({"ids": json.dumps(list(ids)), "tenant": tenant, "now": now, "stop": stop.value})
        found = {
            job_id: CanceledJob(
                COMPLETION.optional(on_complete), OCCURRENCE.optional(schedule), state == JobState.IN_PROGRESS, trace
            )
            for job_id, state, on_complete, schedule, _, trace in rows
        }
        if any(each.still_runs for each in found.values()):
            self.hints.add(Notification.STOP)
        return found

    def reschedule_job(self, job_id: JobId, *, tenant: TenantId, due_at: Instant, now: Instant) -> bool:
        """Change when a pending job is due. Return False if it is not pending. `requested_at` stays."""
        rows = self._fetch("reschedule_job", {"id": job_id, "tenant": tenant, "due_at": due_at})
        if rows and due_at < now + HINT_WINDOW_MS:
            self.hints.add(DUE[_kind(rows[0][0])])
        return bool(rows)

    def mark_retried(self, job_id: JobId, again: JobId, *, tenant: TenantId, replaces: JobId | None = None) -> bool:
        """Store that a finished job runs again as the job `again`. Return whether that was stored.

        It is not if the job has not ended, or runs again already as another one than `replaces`.
        """
        params = {"id": job_id, "again": again, "tenant": tenant, "replaces": replaces}
        rows = self._fetch("mark_retried", params)
        if rows and replaces is None and rows[0][1] == JobState.FAILED:
            self._change_counts([(tenant, rows[0][0], 0, 0, 0, 0, 1)])
        return bool(rows)

    def mark_steps_retried(self, run_id: JobId, again: JobId, *, tenant: TenantId) -> None:
        """Store that the failed calls of a run, and those of its failed child runs, run again in the run `again`.

        Jobs that run again already as another job stay as they are.
        """
        marked, runs = Counter[str](), [run_id]
        while runs:
            rows = self._fetch("mark_steps_retried", {"run": runs.pop(), "again": again, "tenant": tenant})
            marked.update(name for _, name, _ in rows)
            runs += [JobId(found) for found, _, kind in rows if kind == FunctionKind.WORKFLOW]
        self._change_counts([(tenant, name, 0, 0, 0, 0, count) for name, count in marked.items()])

    def _cancel(self, params: Mapping[str, Any]) -> list[Row]:
        """Cancel jobs. Return for each its id, its state afterwards, what follows from its end, its function's name."""
        return self._fetch("cancel_jobs", params)

    def stops_asked(self, ids: Sequence[JobId]) -> dict[JobId, Stop]:
        """Which of these jobs were asked to stop while they ran."""
        rows = self._fetch("stops_asked", {"ids": json.dumps(list(ids))}) if ids else []
        return {row[0]: _stop(row[1]) for row in rows}


class Claims(Driver):
    """Claiming and ending jobs. Each database claims and finishes in its own way."""

    hints: set[Notification]

    @abstractmethod
    def _move_to_history(self, ends: Sequence[JobEnd], worker_id: WorkerId) -> set[JobId]:
        """End jobs for good. Return those that were still claimed."""

    @abstractmethod
    def _make_pending(self, ends: Sequence[JobEnd], worker_id: WorkerId, now: Instant) -> set[JobId]:
        """Make jobs pending again, and store the attempts that ended. Return those that were still claimed."""

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId, now: Instant) -> set[JobId]:
        """Write how attempts ended, except their logs. Return the jobs that `worker_id` still had claimed; the others
        are unchanged. A job that has ended moves from `jobs` to `history`; one that is retried stays, and the attempt
        that ended is stored.

        A job that was asked to stop ends only as canceled: with any other end it is unchanged, too.
        `ends` has each job once. A success repeats its claim's `due_at`, `failures` and `crashes`, and has no error.
        """
        final = [end for end in ends if end.state is not JobState.PENDING]
        held = self._move_to_history(final, worker_id) if final else set()
        if len(final) < len(ends):
            held |= self._make_pending([end for end in ends if end.state is JobState.PENDING], worker_id, now)
        return held

    @abstractmethod
    def _claim_rows(self, shares: Sequence[Share], params: dict[str, Any]) -> list[Row]:
        """Claim the `shares`; `params` are kind, worker_id and bytes."""

    @abstractmethod
    def _numbers(self, numbers: Sequence[int]) -> Any:
        """A list of numbers as a parameter of a statement."""

    def next_waiting_at(self) -> Instant | None:
        """When the earliest of the jobs that wait for their time is due; None if none waits."""
        rows = self._fetch("next_waiting_at", {})
        return rows[0][0] if rows else None

    def promote_jobs(self, *, now: Instant, limit: int) -> int:
        """Make up to `limit` due jobs ready. Return how many. Jobs that others are promoting are skipped."""
        return self._run("promote_jobs", {"now": now, "limit": limit})

    def oldest_ready_jobs(
        self, *, others: Sequence[QueueId] = (), after: OldestJob = START, limit: int, steps: int = 1_000
    ) -> list[OldestJob]:
        """The first ready job of each tenant in each queue, except the queues `others`.

        In the order of queue and tenant, after those of `after`, at most `limit`. Each of `others` that has ready jobs
        costs a step, as each result does; after `steps` the search ends.
        """
        params = {
            "others": self._numbers(others), "queue": after.queue, "tenant": after.tenant, "limit": limit,
            "steps": steps,
        }  # fmt: skip
        return [OldestJob(*row) for row in self._fetch("oldest_ready_jobs", params)]

    def oldest_new_jobs(self, known: Sequence[OldestJob], *, others: Sequence[QueueId]) -> list[OldestJob]:
        """First ready jobs of tenants and queues that are not among `known` and `others`: not all, but at least one if
        there are any. Cheap for a few known ones, however many of their jobs were claimed before.
        """
        places = {first[:2] for first in known}
        oldest = self.oldest_ready_jobs(others=others, limit=len(known) + 1)
        return [first for first in oldest if first[:2] not in places]

    def queue_name(self, queue: QueueId) -> tuple[str, str] | None:
        """Pool and function of a queue; None if no job is ready there any more."""
        rows = self._fetch("queue_name", {"queue": queue})
        return (rows[0][0] or DEFAULT_POOL, rows[0][1]) if rows else None

    def claim_jobs(
        self, shares: Sequence[Share], *, kind: FunctionKind, worker_id: WorkerId, now: Instant, bytes_max: int
    ) -> list[Claim]:
        """Lease ready jobs to `worker_id`, as functions of that kind: by rank from each first job on, up to its share.

        At most `bytes_max` bytes of arguments, unless the first job alone has more; the shares take turns. Jobs that
        others are claiming are skipped.
        """
        params = {"kind": kind.value, "worker_id": worker_id, "now": now, "bytes": bytes_max}
        return claims_of(self._claim_rows(shares, params))

    def suspects(self, *, limit: int) -> list[Suspect]:
        """The pending suspects that are due first."""
        rows = self._fetch("suspects", {"limit": limit})
        return [Suspect(r[0], r[1], r[2], r[3], r[4] or DEFAULT_POOL, r[5], r[6]) for r in rows]

    def claim_suspect(self, job_id: JobId, *, kind: FunctionKind, worker_id: WorkerId, now: Instant) -> Claim | None:
        """Lease a suspect to `worker_id`; None if it is not pending any more."""
        params = {"id": job_id, "kind": kind.value, "worker_id": worker_id, "now": now}
        rows = self._fetch("claim_suspect", params)
        return _claim(rows[0]) if rows else None

    def note_error(self, job_id: JobId, error: Stored[JobError], *, worker_id: WorkerId, attempt: int) -> None:
        """Store an error of a running job, if it is still claimed; its end replaces that."""
        params = {"id": job_id, "error": text_of(error), "worker_id": worker_id, "attempt": attempt}
        self._run("note_error", params)

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        """Whether the job is in progress under (worker, attempt). Waits for a COMMIT that is still running.

        For `write` only. Call it at READ_COMMITTED: a SERIALIZABLE transaction that had to wait ends in a
        WriteConflict.
        """
        return bool(self._fetch("lock_claim", {"id": job_id, "worker_id": worker_id, "attempt": attempt}))

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        """The jobs that a worker has claimed."""
        rows = self._fetch("held_jobs", {"worker_id": worker_id, "limit": limit})
        return [_claim(row) for row in rows]

    def release_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        """Release a claimed job that was not started: it is ready again, and only its attempt has changed."""
        if self._run("release_job", {"id": job_id, "worker_id": worker_id, "attempt": attempt}):
            self.hints.update(DUE.values())


def _schedule_of(occurrence: Stored[OccurrenceRef]) -> ScheduleId | None:
    """The schedule that a job runs for; None if there is none, or a newer release wrote it."""
    try:
        return occurrence.value.id
    except SchemaMismatch:
        return None


def _pool_of(job: NewJob) -> str | None:
    return None if job.pool == DEFAULT_POOL else job.pool


def summary_of(r: Row) -> JobSummary:
    """The job of a list's row."""
    return JobSummary(**_summary(r))


# A row can have a value that this code does not know: a newer release wrote it, or it is damaged. It is shown as the
# value that promises least, and never prevents reading the other rows.


def _kind(text: str) -> FunctionKind:
    return _KINDS.get(text, FunctionKind.ACTION)


def _state(text: str) -> JobState:
    return _STATES.get(text, JobState.PENDING)


def _stop(number: int) -> Stop:
    return _STOPS.get(number, Stop.CANCEL)


def _summary(r: Row) -> dict[str, Any]:
    return {
        "id": r[0], "tenant": r[1], "kind": _kind(r[2]), "name": r[3], "state": _state(r[4]), "requested_at": r[5],
        "due_at": r[6], "created_at": r[7], "started_at": r[8], "completed_at": r[9], "attempt": r[10],
        "failures": r[11], "crashes": r[12], "worker_id": r[13], "parent_id": r[14], "key": r[15],
        "schedule_id": r[16], "pool": r[17] or DEFAULT_POOL, "priority": r[18], "stop": _stop(r[19]),
        "retried_as": r[20],
    }  # fmt: skip


def _new_job_rows(jobs: Sequence[NewJob]) -> list[Row]:
    """New jobs in the order of NEW_JOB_COLUMNS, without the arguments that are stored apart.

    Jobs that are scheduled together usually differ only in their id and arguments.
    """
    rows: list[Row] = []
    before: Any = None
    for job in jobs:
        others = job[1:_ARGS_FIELD] + job[_ARGS_FIELD + 1 :]
        if others != before:
            before, row = others, new_job_row(job)
        args = job.args if len(job.args) <= BODY_CHARS else ""
        rows.append((
            job.id, *row[1:ARGS_COLUMN], args, *row[ARGS_COLUMN + 1 : SIZE_COLUMN], size_of(job.args),
            *row[SIZE_COLUMN + 1 :],
        ))  # fmt: skip
    return rows


def new_job_row(job: NewJob) -> Row:
    """A new job in the order of NEW_JOB_COLUMNS, with its arguments."""
    return (
        job.id, job.tenant, job.kind.value, job.name, job.args, job.state.value,
        job.requested_at, job.due_at, job.created_at, job.parent_id, job.key, text_of(job.retry),
        text_of(job.on_complete), None if job.schedule is None else _schedule_of(job.schedule), text_of(job.schedule),
        _pool_of(job), queue_of(job.pool, job.name), "ready" if job.due_at <= job.created_at else "waiting",
        job.priority, job.due_at - job.priority * PRIORITY_MS, size_of(job.args),
        job.limit_key, job.trace,
    )  # fmt: skip


def _job(r: Row) -> Job:
    return Job(
        **_summary(r), args=r[21], retry=RETRY.optional(r[22]), on_complete=COMPLETION.optional(r[23]),
        schedule=OCCURRENCE.optional(r[24]), result=r[25], error=JOB_ERROR.optional(r[26]),
        limit_key=r[27],
    )  # fmt: skip


def counted(rows: Iterable[tuple[str, str]]) -> list[Row]:
    """The change of counts for new jobs, given as (tenant, name)."""
    return [(*place, count, 0, 0, 0, 0) for place, count in sorted(Counter(rows).items())]


def counted_ends(rows: Iterable[tuple[str, str, JobState | str]], *, unfinished: int) -> list[Row]:
    """The change of counts by jobs that ended, or were removed (`unfinished` is 0): as (tenant, name, state)."""
    changes: dict[tuple[str, str], list[int]] = {}
    for (tenant, name, state), count in Counter(rows).items():
        if state not in FINISHED:  # a damaged row
            continue
        change = changes.setdefault((tenant, name), [0, 0, 0, 0])
        change[0] += count * unfinished
        change[FINISHED.index(JobState(state)) + 1] += count if unfinished else -count
    return [(*place, *change, 0) for place, change in sorted(changes.items())]


def outcome_of(end: JobEnd) -> str:
    """The outcome of an attempt that another one will follow."""
    return "lost" if end.error is None or end.error.value.type == LOST_WORKER else JobState.FAILED.value


def claims_of(rows: Iterable[Row]) -> list[Claim]:
    """The claims that a statement returned, by rank: `returning` promises no order."""
    return sorted(map(_claim, rows), key=BY_RANK)


def _claim(r: Row) -> Claim:
    # Most jobs have none of the three, and this runs for every job.
    if r[10] is None and r[11] is None and r[12] is None:
        return Claim(r[0], r[1], _kind(r[2]), *r[3:])
    return Claim(
        r[0], r[1], _kind(r[2]), r[3], r[4], r[5], r[6], r[7], r[8], r[9],
        RETRY.optional(r[10]), COMPLETION.optional(r[11]), OCCURRENCE.optional(r[12]), r[13], r[14], r[15],
    )  # fmt: skip
