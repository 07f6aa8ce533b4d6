"""The model: the store's contract over plain dicts, small enough to believe by reading.

It answers what a store must answer; `tests/store/test_differential.py` compares both step by step. It knows one
transaction at a time, and nothing of locks, lost connections or performance.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate, zip_longest
from typing import Any, TypeVar

from evertick.base.errors import WriteConflict
from evertick.base.ids import JobId, QueueId, TenantId, WorkerId, queue_of
from evertick.base.instants import Instant
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument
from evertick.base.records.history import (
    AttemptLines,
    JobAttempt,
    JobCounts,
    JobLine,
    LineFilter,
    LinePosition,
    StoredLine,
)
from evertick.base.records.jobs import (
    PRIORITY_MS,
    UNFINISHED,
    Call,
    CanceledJob,
    Claim,
    FunctionKind,
    Job,
    JobEnd,
    JobError,
    JobFilter,
    JobState,
    JobSummary,
    NewJob,
    Stop,
    Worker,
)
from evertick.base.records.stored import Stored, text_of
from evertick.rules.jobs.coverage import blocked
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES
from evertick.store.records.claims import START, OldestJob, OwnJob, Share, Suspect
from evertick.store.records.pages import JobsFound, LinesFound
from tests.store.limit_key_model import LimitKeyModel
from tests.store.schedule_model import ScheduleModel, ScheduleTables

T = TypeVar("T")
Entry = tuple[TenantId, str, bytes, str]
PENDING, IN_PROGRESS, CANCELED = JobState.PENDING, JobState.IN_PROGRESS, JobState.CANCELED


@dataclass
class Tables(ScheduleTables):
    """Everything that is true. Rows are frozen, so copying the containers copies the state."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    workers: dict[WorkerId, Worker] = field(default_factory=dict)
    documents: dict[tuple[TenantId, str], str] = field(default_factory=dict)
    entries: set[Entry] = field(default_factory=set)
    indexes: dict[tuple[TenantId, str], str] = field(default_factory=dict)
    calls: dict[tuple[TenantId, str], tuple[Call, Instant]] = field(default_factory=dict)
    stages: dict[JobId, str] = field(default_factory=dict)
    traces: dict[JobId, str | None] = field(default_factory=dict)
    attempts: dict[tuple[JobId, int], JobAttempt] = field(default_factory=dict)
    last_attempts: dict[JobId, WorkerId] = field(default_factory=dict)
    logs: dict[tuple[JobId, int, int], tuple[TenantId, StoredLine]] = field(default_factory=dict)

    def copy(self) -> "Tables":
        """The same state, to come back to."""
        return Tables(**{table.name: getattr(self, table.name).copy() for table in fields(self)})


class ModelStore:
    """A store that is nothing but its tables."""

    def __init__(self) -> None:
        self.tables = Tables()

    def write(self, work: "Callable[[ModelTransaction], T]") -> T:
        """Run `work`; what it did counts only if it returns."""
        transaction = ModelTransaction(self.tables.copy())
        result = work(transaction)
        self.tables = transaction.tables
        return result


def _is_called(job: Job) -> bool:
    """Whether a run has called it."""
    return '", "kind": "step"' in (text_of(job.on_complete) or "")


def _is_dead(job: Job) -> bool:
    """Whether it failed, and a retry is what would run it again."""
    return job.state is JobState.FAILED and job.retried_as is None and not _is_called(job)


class ModelTransaction(LimitKeyModel, ScheduleModel):
    """The contract's transaction, method by method."""

    tables: Tables

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.own: OwnJob | None = None
        self._savepoints: list[tuple[str, Tables]] = []

    # -- jobs

    def insert_jobs(self, jobs: Sequence[NewJob]) -> None:
        for job in jobs:
            held = job.key is not None and job.state in UNFINISHED and self._holder(job.key, job.tenant)
            if held or job.id in self.tables.jobs:
                raise WriteConflict("an id or a key is taken")
            self._save(
                Job(
                    id=job.id, tenant=job.tenant, kind=job.kind, name=job.name, args=job.args, state=job.state,
                    requested_at=job.requested_at, due_at=job.due_at, created_at=job.created_at, started_at=None,
                    completed_at=None, attempt=0, failures=0, crashes=0, worker_id=None, parent_id=job.parent_id,
                    key=job.key, retry=job.retry, on_complete=job.on_complete,
                    schedule=job.schedule, schedule_id=None if job.schedule is None else job.schedule.value.id,
                    result=None, error=None, pool=job.pool, priority=job.priority, stop=Stop.NONE,
                    limit_key=job.limit_key,
                )
            )  # fmt: skip
            if job.state is CANCELED:
                self._end(self.tables.jobs[job.id], state=CANCELED, completed_at=job.created_at)
            self.tables.stages[job.id] = "ready" if job.due_at <= job.created_at else "waiting"
            self.tables.traces[job.id] = job.trace

    def next_waiting_at(self) -> Instant | None:
        return min((job.due_at for job in self._pending("waiting")), default=None)

    def promote_jobs(self, *, now: Instant, limit: int) -> int:
        due = sorted((job.due_at, job.id) for job in self._pending("waiting") if job.due_at <= now)[:limit]
        self.tables.stages |= {job_id: "ready" for _, job_id in due}
        return len(due)

    def oldest_ready_jobs(
        self, *, others: Sequence[QueueId] = (), after: OldestJob = START, limit: int, steps: int = 1_000
    ) -> list[OldestJob]:
        first: dict[tuple[QueueId, TenantId], int] = {}
        for job in self._pending("ready"):
            place = (queue_id(job), job.tenant)
            if place > after[:2] and place[0] not in others:
                first[place] = min(rank(job), first.get(place, rank(job)))
        return [OldestJob(*place, first[place]) for place in sorted(first)][: min(limit, steps)]

    def oldest_new_jobs(self, known: Sequence[OldestJob], *, others: Sequence[QueueId]) -> list[OldestJob]:
        places = {first[:2] for first in known}
        return [first for first in self.oldest_ready_jobs(others=others, limit=1_000) if first[:2] not in places]

    def queue_name(self, queue: QueueId) -> tuple[str, str] | None:
        return next(((job.pool, job.name) for job in self._pending("ready") if queue_id(job) == queue), None)

    def claim_jobs(
        self, shares: Sequence[Share], *, kind: FunctionKind, worker_id: WorkerId, now: Instant, bytes_max: int
    ) -> list[Claim]:
        behind = [
            sorted((rank(job), job.id) for job in self._pending("ready")
                   if (queue_id(job), job.tenant) == first[:2] and rank(job) >= first.rank)[:limit]
            for first, limit in shares
        ]  # fmt: skip
        in_turn = [self.tables.jobs[each[1]] for turn in zip_longest(*behind) for each in turn if each is not None]
        sizes = list(accumulate(len(job.args.encode()) for job in in_turn))
        chosen = [job for i, (job, size) in enumerate(zip(in_turn, sizes, strict=True)) if size <= bytes_max or i == 0]
        return sorted(
            (self._claim(job, kind, worker_id, now) for job in chosen), key=lambda claim: (claim.rank, claim.id)
        )

    def suspects(self, *, limit: int) -> list[Suspect]:
        found = sorted(self._pending("suspect"), key=lambda job: (job.due_at, job.id))[:limit]
        return [
            Suspect(job.id, job.tenant, queue_id(job), job.due_at, job.pool, job.name, job.limit_key) for job in found
        ]

    def claim_suspect(self, job_id: JobId, *, kind: FunctionKind, worker_id: WorkerId, now: Instant) -> Claim | None:
        due = [job for job in self._pending("suspect") if job.id == job_id and job.due_at <= now]
        return self._claim(due[0], kind, worker_id, now) if due else None

    def _claim(self, job: Job, kind: FunctionKind, worker_id: WorkerId, now: Instant) -> Claim:
        changes = {"state": IN_PROGRESS, "kind": kind, "worker_id": worker_id, "started_at": now}
        claimed = replace(job, attempt=job.attempt + 1, **changes)
        self._save(claimed)
        return claim_of(self.tables, claimed)

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId, now: Instant) -> set[JobId]:
        held = {
            end.id
            for end in ends
            if self.is_held(end.id, worker_id=worker_id, attempt=end.attempt)
            and (not self._is_asked_to_stop(end.id) or end.state is CANCELED)
        }
        for end in ends:
            if end.id in held:
                job = self.tables.jobs[end.id]
                began_at = end.started_at or job.started_at
                changes = {"failures": end.failures, "crashes": end.crashes, "error": end.error}
                if end.state is PENDING:
                    outcome = "lost" if end.error is None else "failed"
                    attempt = JobAttempt(end.attempt, worker_id, began_at, now, outcome, end.error)
                    self.tables.attempts[end.id, end.attempt] = attempt
                    self._save(replace(job, state=PENDING, worker_id=None, due_at=end.due_at, **changes))
                    self.tables.stages[end.id] = "suspect" if end.crashes >= SUSPECT_CRASHES else "waiting"
                else:
                    changes |= {"state": end.state, "completed_at": end.completed_at, "result": end.result}
                    self._end(job, started_at=began_at, **changes)
        return held

    def _is_asked_to_stop(self, job_id: JobId) -> bool:
        job = self.tables.jobs[job_id]
        return job.stop is not Stop.NONE and job.kind is FunctionKind.ACTION

    def note_error(self, job_id: JobId, error: Stored[JobError], *, worker_id: WorkerId, attempt: int) -> None:
        if self.is_held(job_id, worker_id=worker_id, attempt=attempt):
            self._save(replace(self.tables.jobs[job_id], error=error))

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        job = self.tables.jobs.get(job_id)
        return job is not None and (job.state, job.worker_id, job.attempt) == (IN_PROGRESS, worker_id, attempt)

    def release_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        if self.is_held(job_id, worker_id=worker_id, attempt=attempt):
            job = self.tables.jobs[job_id]
            self._save(replace(job, state=PENDING, worker_id=None))
            self.tables.stages[job_id] = "suspect" if job.crashes >= SUSPECT_CRASHES else "ready"

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        return [claim_of(self.tables, job) for job in self._sorted() if job.worker_id == worker_id][:limit]

    def get_job(self, job_id: JobId, *, tenant: TenantId) -> Job | None:
        job = self.tables.jobs.get(job_id)
        return job if job is not None and job.tenant == tenant else None

    def get_jobs(self, ids: Sequence[JobId], *, tenant: TenantId) -> list[Job]:
        return [job for job in self._sorted() if job.id in ids and job.tenant == tenant]

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[JobSummary]:
        found = [
            JobSummary(**{each.name: getattr(job, each.name) for each in fields(JobSummary)})
            for job in self._sorted()
            if job.tenant == where.tenant
            and (not where.states or job.visible_state in where.states)
            and where.name in (None, job.name)
            and where.schedule_id in (None, job.schedule_id)
            and where.parent_id in (None, job.parent_id)
            and (where.due_from is None or job.due_at >= where.due_from)
            and (where.due_until is None or job.due_at < where.due_until)
            and (where.occurrence is None or (job.schedule_id is not None and job.requested_at in where.occurrence))
            and where.key in (None, job.key)
            and where.limit_key in (None, job.limit_key)
            and (not where.not_retried or _is_dead(job))
            and (where.error is None or (job.error is not None and _says(job.error.value, where.error)))
            and (where.blocked_at is None or blocked([job], self.workers_alive(where.blocked_at), where.blocked_at))
            and (after is None or (job.id < after if newest_first else job.id > after))
        ]
        return (found[::-1] if newest_first else found)[:limit]

    def find_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> JobsFound:
        found = self.list_jobs(where, limit=limit + 1, after=after, newest_first=newest_first)
        return JobsFound(found[:limit], found[limit - 1].id if len(found) > limit else None)

    def count_jobs(self, tenant: TenantId, *, name: str | None = None) -> dict[str, JobCounts]:
        mine = [job for job in self.tables.jobs.values() if job.tenant == tenant and name in (None, job.name)]
        shown = {
            name: [job.visible_state for job in mine if job.name == name] for name in sorted({j.name for j in mine})
        }
        retried = Counter(job.name for job in mine if job.state is JobState.FAILED and job.retried_as is not None)
        counts = {name: JobCounts(*(states.count(state) for state in JobState)) for name, states in shown.items()}
        return {name: each._replace(not_retried=each.failed - retried[name]) for name, each in counts.items()}

    def mark_retried(self, job_id: JobId, again: JobId, *, tenant: TenantId, replaces: JobId | None = None) -> bool:
        job = self.tables.jobs.get(job_id)
        if job is None or job.tenant != tenant or job.state in UNFINISHED or job.retried_as != replaces:
            return False
        self._save(replace(job, retried_as=again))
        return True

    def mark_steps_retried(self, run_id: JobId, again: JobId, *, tenant: TenantId) -> None:
        runs = [run_id]
        while runs:
            run = runs.pop()
            for job in [each for each in self.tables.jobs.values() if (each.tenant, each.parent_id) == (tenant, run)]:
                if _is_called(job) and job.state is JobState.FAILED and job.retried_as is None:
                    self._save(replace(job, retried_as=again))
                    runs += [job.id] if job.kind is FunctionKind.WORKFLOW else []

    def list_attempts(self, ids: Sequence[JobId]) -> dict[JobId, list[JobAttempt]]:
        return {job_id: found for job_id in ids if (found := self._attempts(job_id))}

    def _attempts(self, job_id: JobId) -> list[JobAttempt]:
        found = [attempt for (owner, _), attempt in self.tables.attempts.items() if owner == job_id]
        job = self.tables.jobs.get(job_id)
        if job is not None and job_id in self.tables.last_attempts:
            last = (job.attempt, self.tables.last_attempts[job_id], job.started_at, job.completed_at)
            found.append(JobAttempt(*last, job.state.value, job.error))
        if job is not None and job.visible_state is IN_PROGRESS and job.worker_id is not None:
            found.append(JobAttempt(job.attempt, job.worker_id, job.started_at, None, None, None))
        return sorted(found, key=lambda attempt: attempt.attempt)

    def add_logs(self, lines: Iterable[AttemptLines], *, now: Instant) -> None:
        for log in lines:
            for line in log.lines:
                place = LinePosition(now, log.job_id, log.attempt, line.number)
                self.tables.logs.setdefault(place[1:], (log.tenant, StoredLine(place, log.name, line)))

    def list_logs(self, job_id: JobId) -> list[JobLine]:
        lines = sorted((place, kept) for place, (_, kept) in self.tables.logs.items() if place[0] == job_id)
        return [JobLine(place[1], kept.line) for place, kept in lines]

    def job_family(self, job_id: JobId, *, tenant: TenantId, limit: int) -> list[JobId]:
        found = [job_id]
        for parent in found:
            found += sorted(j.id for j in self.tables.jobs.values() if j.parent_id == parent and j.tenant == tenant)
        assert len(found) <= limit, "which ones are left out is not said"
        return [job_id, *sorted(found[1:])]

    def find_lines(
        self, where: LineFilter, *, limit: int, after: LinePosition | None = None, newest_first: bool = False
    ) -> LinesFound:
        def is_meant(tenant: TenantId, kept: StoredLine) -> bool:
            stored_at, job_id = kept.place.stored_at, kept.place.job_id
            return (
                tenant == where.tenant
                and where.name in (None, kept.name)
                and (where.levels is None or kept.line.level in where.levels)
                and (where.text is None or where.text.lower() in kept.line.text.lower())
                and (where.jobs is None or job_id in where.jobs)
                and (where.since is None or where.since <= stored_at)
                and (where.until is None or stored_at < where.until)
                and (after is None or (kept.place < after if newest_first else kept.place > after))
            )

        found = [kept for tenant, kept in self.tables.logs.values() if is_meant(tenant, kept)]
        found.sort(key=lambda kept: kept.place, reverse=newest_first)
        return LinesFound(found[:limit], found[limit - 1].place if len(found) > limit else None)

    def cancel_job(
        self, job_id: JobId, *, tenant: TenantId, now: Instant, stop: Stop = Stop.CANCEL
    ) -> CanceledJob | None:
        job = self.get_job(job_id, tenant=tenant)
        if job is None or job.state not in UNFINISHED:
            return None
        if job.state is JobState.IN_PROGRESS and job.kind is FunctionKind.ACTION:
            self._save(replace(job, stop=max(job.stop, stop), key=None))
            return CanceledJob(job.on_complete, job.schedule, still_runs=True, trace=self.tables.traces[job_id])
        began = None if job.state is JobState.PENDING else job.started_at  # what began was an earlier attempt
        self._end(replace(job, started_at=began), state=CANCELED, completed_at=now)
        return CanceledJob(job.on_complete, job.schedule, trace=self.tables.traces[job_id])

    def cancel_jobs(
        self, ids: Sequence[JobId], *, tenant: TenantId, now: Instant, stop: Stop = Stop.CANCEL
    ) -> dict[JobId, CanceledJob]:
        found = {each: self.cancel_job(each, tenant=tenant, now=now, stop=stop) for each in dict.fromkeys(ids)}
        return {each: ended for each, ended in found.items() if ended is not None}

    def find_unfinished_key(self, key: str, *, tenant: TenantId) -> JobId | None:
        return self._holder(key, tenant)

    def unfinished_keys(self, keys: Collection[str], *, tenant: TenantId) -> set[str]:
        return {key for key in keys if self._holder(key, tenant) is not None}

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        ended = [(j.completed_at, j.id) for j in self.tables.jobs.values() if j.completed_at is not None]
        old = sorted(item for item in ended if item[0] < before)[:limit]
        for _, job_id in old:
            del self.tables.jobs[job_id]
            self.tables.last_attempts.pop(job_id, None)
        gone = {job_id for _, job_id in old}
        self.tables.attempts = {place: row for place, row in self.tables.attempts.items() if place[0] not in gone}
        self.tables.logs = {place: line for place, line in self.tables.logs.items() if place[0] not in gone}
        return len(old)

    # -- workers

    def register_worker(self, worker: Worker) -> None:
        if worker.id in self.tables.workers:
            raise WriteConflict("the worker is registered")
        self.tables.workers[worker.id] = worker

    def renew_lease(self, worker_id: WorkerId, *, leased_until: Instant) -> bool:
        worker = self.tables.workers.get(worker_id)
        if worker is not None:
            self.tables.workers[worker_id] = replace(worker, leased_until=leased_until)
        return worker is not None

    def remove_worker(self, worker_id: WorkerId) -> None:
        self.tables.workers.pop(worker_id, None)

    def expired_workers(self, now: Instant, *, limit: int) -> list[Worker]:
        gone = [worker for worker in self.tables.workers.values() if worker.leased_until <= now]
        return sorted(gone, key=lambda worker: (worker.leased_until, worker.id))[:limit]

    def holders_without_row(self) -> list[WorkerId]:
        holders = {job.worker_id for job in self.tables.jobs.values() if job.worker_id is not None}
        return sorted(holders - self.tables.workers.keys())

    def list_workers(self) -> list[Worker]:
        return sorted(self.tables.workers.values(), key=lambda worker: (worker.started_at, worker.id))

    def workers_alive(self, now: Instant, *, among: Sequence[Worker] | None = None) -> list[Worker]:
        return [worker for worker in (self.list_workers() if among is None else among) if worker.leased_until > now]

    # -- documents

    def get_document(self, document_id: str, *, tenant: TenantId) -> str | None:
        return self.tables.documents.get((tenant, document_id))

    def put_documents(self, tenant: TenantId, documents: Sequence[StoredDocument]) -> None:
        self.tables.documents.update({(tenant, document.id): document.body for document in documents})

    def delete_documents(self, tenant: TenantId, ids: Sequence[str]) -> None:
        for document_id in ids:
            self.tables.documents.pop((tenant, document_id), None)

    def scan_documents(
        self, tenant: TenantId, *, low: str, high: str, limit: int, descending: bool
    ) -> list[StoredDocument]:
        ids = sorted(i for owner, i in self.tables.documents if owner == tenant and low < i < high)
        return [StoredDocument(i, self.tables.documents[tenant, i]) for i in _directed(ids, descending)[:limit]]

    def put_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        self.tables.entries.update((tenant, *entry) for entry in entries)

    def delete_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        self.tables.entries.difference_update((tenant, *entry) for entry in entries)

    def scan_index(self, part: IndexPart, *, after: IndexPosition, limit: int) -> list[tuple[bytes, StoredDocument]]:
        tenant, index_name, low, high, descending = part
        positions = sorted(
            (key, i)
            for owner, name, key, i in self.tables.entries
            if (owner, name) == (tenant, index_name)
            and low <= key < high
            and ((key, i) < after if descending else (key, i) > after)
            and (tenant, i) in self.tables.documents
        )
        chosen = _directed(positions, descending)[:limit]
        return [(key, StoredDocument(i, self.tables.documents[tenant, i])) for key, i in chosen]

    def document_indexes(self, tenant: TenantId) -> dict[str, str]:
        return {name: text for (owner, name), text in self.tables.indexes.items() if owner == tenant}

    def save_document_index(self, tenant: TenantId, index_name: str, fields: str) -> None:
        self.tables.indexes[tenant, index_name] = fields

    def drop_document_index(self, tenant: TenantId, index_name: str) -> None:
        self.tables.indexes.pop((tenant, index_name), None)
        self.tables.entries = {e for e in self.tables.entries if e[:2] != (tenant, index_name)}

    def clear_index(self, tenant: TenantId, index_name: str, *, limit: int) -> int:
        gone = sorted(e for e in self.tables.entries if e[:2] == (tenant, index_name))[:limit]
        self.tables.entries.difference_update(gone)
        return len(gone)

    def tenants_with_documents(self, *, after: TenantId, limit: int) -> list[TenantId]:
        return sorted({tenant for tenant, _ in self.tables.documents if tenant > after})[:limit]

    def tenants_with_entries(self, *, after: TenantId, limit: int) -> list[TenantId]:
        return sorted({entry[0] for entry in self.tables.entries if entry[0] > after})[:limit]

    # -- remembered calls

    def find_call(self, key: str, *, tenant: TenantId) -> Call | None:
        found = self.tables.calls.get((tenant, key))
        return found[0] if found else None

    def save_call(self, key: str, call: Call, *, tenant: TenantId, now: Instant) -> None:
        if (tenant, key) in self.tables.calls:
            raise WriteConflict("the key was saved")
        self.tables.calls[tenant, key] = (call, now)

    def prune_calls(self, *, before: Instant, limit: int) -> int:
        old = sorted((made, place) for place, (_, made) in self.tables.calls.items() if made < before)[:limit]
        for _, place in old:
            del self.tables.calls[place]
        return len(old)

    # -- the transaction itself

    def savepoint(self, name: str) -> None:
        self._savepoints.append((name, self.tables.copy()))

    def check_usable(self) -> None: ...

    def confirm(self) -> None: ...

    def waits_for_copies(self) -> bool:
        return True

    def reset_session(self) -> None: ...

    def rollback_to(self, name: str) -> None:
        while True:
            last, self.tables = self._savepoints.pop()
            if last == name:
                return

    def release(self, name: str) -> None:
        while self._savepoints.pop()[0] != name:
            pass

    # -- helpers

    def _end(self, job: Job, **changes: Any) -> None:
        """A job has ended."""
        if job.worker_id is not None:
            self.tables.last_attempts[job.id] = job.worker_id
        self._save(replace(job, worker_id=None, **changes))

    def _save(self, job: Job) -> None:
        self.tables.jobs[job.id] = job

    def _sorted(self) -> list[Job]:
        return sorted(self.tables.jobs.values(), key=lambda job: job.id)

    def _pending(self, stage: str) -> list[Job]:
        return [j for j in self.tables.jobs.values() if j.state is PENDING and self.tables.stages[j.id] == stage]

    def _holder(self, key: str, tenant: TenantId) -> JobId | None:
        holders = (j for j in self.tables.jobs.values() if (j.key, j.tenant) == (key, tenant) and j.state in UNFINISHED)
        return next((job.id for job in holders), None)


def claim_of(tables: Tables, job: Job) -> Claim:
    """What a worker is told of a job."""
    own = (getattr(job, name) for name in Claim.__match_args__ if name not in ("queue", "rank", "trace"))
    return Claim(*own, queue=queue_id(job), rank=rank(job), trace=tables.traces[job.id])


def queue_id(job: Job) -> QueueId:
    """The queue of a job."""
    return queue_of(job.pool, job.name)


def rank(job: Job) -> int:
    """The place of a job among those of its queue."""
    return job.due_at - job.priority * PRIORITY_MS


def _directed(rows: Iterable[T], descending: bool) -> list[T]:
    ordered = list(rows)
    return ordered[::-1] if descending else ordered


def _says(error: JobError, part: str) -> bool:
    """Whether an error says this, in small or capital letters of ASCII."""
    said, asked = ("".join(c.lower() if c.isascii() else c for c in text) for text in (error.text, part))
    return asked in said
