"""The contract's transaction, over SQL: names the statement, hands in the parameters, gives rows their shape.

What differs between the databases is four small methods, which `sqlite.py` and `postgres.py` add: run one statement
and fetch, run one and count, run one for many rows, and finish many jobs.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from evertick.base.errors import EvertickError
from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records import (
    Call,
    CanceledJob,
    Claim,
    FunctionKind,
    Job,
    JobEnd,
    JobFilter,
    JobState,
    NewJob,
    StoredDocument,
    Worker,
)
from evertick.store.contract import NO_TENANT, Hint
from evertick.store.driver import Row
from evertick.store.sql_schedules import SqlSchedules

_KINDS: Final = {kind.value: kind for kind in FunctionKind}
_HINTS: Final = {kind: Hint(kind.value) for kind in (FunctionKind.MUTATION, FunctionKind.ACTION)}
_STATES: Final = {state.value: state for state in JobState}
_HIGHEST_ID: Final = "\x7f"

HINT_WINDOW_MS: Final = 5_000
"""Workers look by themselves at least this often, so only jobs due sooner are worth a hint."""

NEW_JOB_COLUMNS: Final = (
    "id", "tenant", "kind", "name", "args", "state", "requested_at", "due_at", "created_at", "completed_at",
    "parent_id", "key", "retry", "on_complete", "schedule",
)  # fmt: skip
END_COLUMNS: Final = (
    "id", "attempt", "state", "completed_at", "due_at", "failures", "crashes", "result", "error", "logs",
)  # fmt: skip


class SqlTransaction(SqlSchedules):
    """One transaction on a SQL database."""

    def __init__(self) -> None:
        self.hints: set[Hint] = set()
        """What this transaction made worth a look, so that workers should be poked after the commit."""
        self.failure: EvertickError | None = None
        """Why this transaction cannot commit: a statement failed, and nobody rolled back to before it."""

    # -- what a database adds

    @abstractmethod
    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId) -> set[JobId]:
        """See `Transaction.finish_jobs`."""

    @property
    @abstractmethod
    def connection(self) -> Any:
        """See `Transaction.connection`."""

    # -- jobs

    def insert_jobs(self, jobs: Sequence[NewJob]) -> None:
        """See `Transaction.insert_jobs`."""
        if not jobs:
            return
        rows, soon = [], set()
        for job in jobs:
            canceled = job.state is JobState.CANCELED
            if not canceled and job.due_at < job.created_at + HINT_WINDOW_MS:
                soon.add(job.kind)
            rows.append((
                job.id, job.tenant, job.kind.value, job.name, job.args, job.state.value, job.requested_at, job.due_at,
                job.created_at, job.created_at if canceled else None, job.parent_id, job.key, job.retry,
                job.on_complete, job.schedule,
            ))  # fmt: skip
        self.hints.update(_HINTS[kind] for kind in soon)
        self._run_many("insert_jobs", NEW_JOB_COLUMNS, rows)

    def claim_jobs(
        self,
        *,
        kind: FunctionKind,
        tenant: TenantId,
        worker_id: WorkerId,
        now: Instant,
        limit: int,
        due_from: Instant = LONG_AGO,
    ) -> list[Claim]:
        """See `Transaction.claim_jobs`."""
        params = {
            "kind": kind.value, "tenant": tenant, "worker_id": worker_id, "now": now, "limit": limit,
            "due_from": due_from,
        }  # fmt: skip
        claims = [Claim(r[0], r[1], kind, *r[3:]) for r in self._fetch("claim_jobs", params)]
        claims.sort(key=_by_due)  # `returning` promises no order
        return claims

    def claim_suspect(self, kind: FunctionKind, *, worker_id: WorkerId, now: Instant) -> Claim | None:
        """See `Transaction.claim_suspect`."""
        rows = self._fetch("claim_suspect", {"kind": kind.value, "worker_id": worker_id, "now": now})
        return Claim(rows[0][0], rows[0][1], kind, *rows[0][3:]) if rows else None

    def suspect_due_at(self, kind: FunctionKind) -> Instant | None:
        """See `Transaction.suspect_due_at`."""
        rows = self._fetch("suspect_due_at", {"kind": kind.value})
        return rows[0][0] if rows else None

    def waiting_tenants(
        self, kind: FunctionKind, *, limit: int, after: TenantId = NO_TENANT
    ) -> list[tuple[TenantId, Instant]]:
        """See `Transaction.waiting_tenants`."""
        params = {"kind": kind.value, "limit": limit, "after": after}
        return [(r[0], r[1]) for r in self._fetch("waiting_tenants", params)]

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        """See `Transaction.is_held`."""
        return bool(self._fetch("lock_claim", {"id": job_id, "worker_id": worker_id, "attempt": attempt}))

    def block_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        """See `Transaction.block_job`."""
        self._run("block_job", {"id": job_id, "worker_id": worker_id, "attempt": attempt})

    def release_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        """See `Transaction.release_job`."""
        if self._run("release_job", {"id": job_id, "worker_id": worker_id, "attempt": attempt}):
            self.hints.update(_HINTS.values())

    def blocked_names(self) -> set[str]:
        """See `Transaction.blocked_names`."""
        return {r[0] for r in self._fetch("blocked_names", {})}

    def unblock_jobs(self, name: str, kind: FunctionKind | None = None) -> int:
        """See `Transaction.unblock_jobs`."""
        count = self._run("unblock_jobs", {"name": name, "kind": None if kind is None else kind.value})
        if count:
            self.hints.update(_HINTS.values() if kind is None else (_HINTS[kind],))
        return count

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        """See `Transaction.held_jobs`."""
        rows = self._fetch("held_jobs", {"worker_id": worker_id, "limit": limit})
        return [Claim(r[0], r[1], _KINDS[r[2]], *r[3:]) for r in rows]

    def get_job(self, job_id: JobId, *, tenant: TenantId) -> Job | None:
        """See `Transaction.get_job`."""
        rows = self._fetch("get_job", {"id": job_id, "tenant": tenant})
        return _job(rows[0]) if rows else None

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[Job]:
        """See `Transaction.list_jobs`."""
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
        """See `Transaction.count_jobs`."""
        counts = dict.fromkeys(_STATES, 0)
        for state, kind, count in self._fetch("count_jobs", {"tenant": tenant}):
            hidden = state == JobState.IN_PROGRESS and kind == FunctionKind.MUTATION
            counts[JobState.PENDING.value if hidden else state] += count
        return counts

    def cancel_job(self, job_id: JobId, *, tenant: TenantId, now: Instant) -> CanceledJob | None:
        """See `Transaction.cancel_job`."""
        rows = self._fetch("cancel_job", {"id": job_id, "tenant": tenant, "now": now})
        return CanceledJob(*rows[0]) if rows else None

    def find_unfinished_key(self, key: str, *, tenant: TenantId) -> JobId | None:
        """See `Transaction.find_unfinished_key`."""
        rows = self._fetch("find_unfinished_key", {"key": key, "tenant": tenant})
        return rows[0][0] if rows else None

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        """See `Transaction.prune_jobs`."""
        return self._run("prune_jobs", {"before": before, "limit": limit})

    # -- workers

    def register_worker(self, worker: Worker) -> None:
        """See `Transaction.register_worker`."""
        self._run(
            "register_worker",
            {
                "id": worker.id,
                "started_at": worker.started_at,
                "leased_until": worker.leased_until,
                "host": worker.host,
                "pid": worker.pid,
            },
        )

    def renew_lease(self, worker_id: WorkerId, *, leased_until: Instant) -> bool:
        """See `Transaction.renew_lease`."""
        return self._run("renew_lease", {"id": worker_id, "leased_until": leased_until}) == 1

    def remove_worker(self, worker_id: WorkerId) -> None:
        """See `Transaction.remove_worker`."""
        self._run("remove_worker", {"id": worker_id})

    def expired_workers(self, now: Instant, *, limit: int) -> list[Worker]:
        """See `Transaction.expired_workers`."""
        return [Worker(*row) for row in self._fetch("expired_workers", {"now": now, "limit": limit})]

    def holders_without_row(self) -> list[WorkerId]:
        """See `Transaction.holders_without_row`."""
        return [r[0] for r in self._fetch("holders_without_row", {})]

    def list_workers(self) -> list[Worker]:
        """See `Transaction.list_workers`."""
        return [Worker(*row) for row in self._fetch("list_workers", {})]

    def workers_alive(self, now: Instant) -> list[Worker]:
        """See `Transaction.workers_alive`."""
        return [worker for worker in self.list_workers() if worker.leased_until > now]

    # -- documents

    def get_document(self, document_id: str, *, tenant: TenantId) -> str | None:
        """See `Transaction.get_document`."""
        rows = self._fetch("get_document", {"id": document_id, "tenant": tenant})
        return rows[0][0] if rows else None

    def put_documents(self, tenant: TenantId, documents: Sequence[StoredDocument]) -> None:
        """See `Transaction.put_documents`."""
        if documents:
            rows = [(tenant, document.id, document.body) for document in documents]
            self._run_many("put_documents", ("tenant", "id", "body"), rows)

    def delete_documents(self, tenant: TenantId, ids: Sequence[str]) -> None:
        """See `Transaction.delete_documents`."""
        if ids:
            self._run_many("delete_documents", ("tenant", "id"), [(tenant, document_id) for document_id in ids])

    def scan_documents(
        self, tenant: TenantId, *, low: str, high: str, limit: int, descending: bool
    ) -> list[StoredDocument]:
        """See `Transaction.scan_documents`."""
        name = "scan_documents_desc" if descending else "scan_documents_asc"
        rows = self._fetch(name, {"tenant": tenant, "low": low, "high": high, "limit": limit})
        return [StoredDocument(*row) for row in rows]

    def put_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """See `Transaction.put_index_entries`."""
        self._change_index_entries("put_index_entries", tenant, entries)

    def delete_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """See `Transaction.delete_index_entries`."""
        self._change_index_entries("delete_index_entries", tenant, entries)

    def _change_index_entries(self, name: str, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        if entries:
            columns = ("tenant", "index_name", "key", "document_id")
            self._run_many(name, columns, [(tenant, *entry) for entry in entries])

    def scan_index(
        self,
        tenant: TenantId,
        index_name: str,
        *,
        low: bytes,
        high: bytes,
        after: tuple[bytes, str],
        limit: int,
        descending: bool,
    ) -> list[tuple[bytes, StoredDocument]]:
        """See `Transaction.scan_index`."""
        # No id is empty, so (low, "") is just below the first key of the range, and (high, "") just above its last.
        key, document_id = min(after, (high, "")) if descending else max(after, (low, ""))
        params = {"tenant": tenant, "index_name": index_name, "key": key, "document_id": document_id, "limit": limit}
        if descending:
            rows = self._fetch("scan_index_desc", params | {"low": low})
        else:
            rows = self._fetch("scan_index_asc", params | {"high": high})
        return [(bytes(key), StoredDocument(document_id, body)) for key, document_id, body in rows]

    def document_indexes(self, tenant: TenantId) -> dict[str, str]:
        """See `Transaction.document_indexes`."""
        return dict(self._fetch("list_document_indexes", {"tenant": tenant}))

    def save_document_index(self, tenant: TenantId, index_name: str, fields: str) -> None:
        """See `Transaction.save_document_index`."""
        self._run("save_document_index", {"tenant": tenant, "index_name": index_name, "fields": fields})

    def drop_document_index(self, tenant: TenantId, index_name: str) -> None:
        """See `Transaction.drop_document_index`."""
        self._run("clear_index_entries", {"tenant": tenant, "index_name": index_name})
        self._run("drop_document_index", {"tenant": tenant, "index_name": index_name})

    # -- remembered calls

    def find_call(self, key: str, *, tenant: TenantId) -> Call | None:
        """See `Transaction.find_call`."""
        rows = self._fetch("find_call", {"key": key, "tenant": tenant})
        return Call(*rows[0]) if rows else None

    def save_call(self, key: str, call: Call, *, tenant: TenantId, now: Instant) -> None:
        """See `Transaction.save_call`."""
        self._run(
            "save_call",
            {
                "tenant": tenant,
                "key": key,
                "name": call.name,
                "fingerprint": call.fingerprint,
                "result": call.result,
                "created_at": now,
            },
        )

    def prune_calls(self, *, before: Instant, limit: int) -> int:
        """See `Transaction.prune_calls`."""
        return self._run("prune_calls", {"before": before, "limit": limit})

    # -- the transaction itself

    def savepoint(self, name: str) -> None:
        """See `Transaction.savepoint`."""
        if self.failure is not None:
            raise self.failure  # or a return to this savepoint would seem to mend what broke before it
        self._command(f'savepoint "{name}"')

    def rollback_to(self, name: str) -> None:
        """See `Transaction.rollback_to`."""
        self._command(f'rollback to savepoint "{name}"')
        self.failure = None
        self._command(f'release savepoint "{name}"')

    def release(self, name: str) -> None:
        """See `Transaction.release`."""
        self._command(f'release savepoint "{name}"')

    def check_usable(self) -> None:
        """See `Transaction.check_usable`. On SQLite a statement that failed is undone alone."""

    def _failed(self, error: EvertickError) -> EvertickError:
        """Note that a statement failed. On PostgreSQL nothing can follow it; so be it on SQLite, too."""
        self.failure = self.failure or error
        return error


def end_row(end: JobEnd) -> Row:
    """A JobEnd in the order of END_COLUMNS."""
    return (
        end.id, end.attempt, end.state.value, end.completed_at, end.due_at,
        end.failures, end.crashes, end.result, end.error, end.logs,
    )  # fmt: skip


def _by_due(claim: Claim) -> tuple[int, str]:
    return (claim.due_at, claim.id)


def _job(r: Row) -> Job:
    return Job(
        id=r[0], tenant=r[1], kind=_KINDS[r[2]], name=r[3], args=r[4], state=_STATES[r[5]],
        requested_at=r[6], due_at=r[7], created_at=r[8], completed_at=r[9],
        attempt=r[10], failures=r[11], crashes=r[12], worker_id=r[13], parent_id=r[14], key=r[15],
        retry=r[16], on_complete=r[17], result=r[18], error=r[19], logs=r[20], blocked=bool(r[21]), schedule=r[22],
    )  # fmt: skip
