"""Claims over SQL: a worker takes jobs, holds them and ends them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import (
    COMPLETION,
    OCCURRENCE,
    Claim,
    FunctionKind,
    JobEnd,
    JobError,
)
from evertick.base.records.retry import RETRY
from evertick.base.records.stored import Stored, text_of
from evertick.store.contract.claims import NO_TENANT
from evertick.store.contract.notifications import DUE, Notification
from evertick.store.transaction.driver import Driver, Row

_KINDS: Final = {kind.value: kind for kind in FunctionKind}

END_COLUMNS: Final = (
    "id", "attempt", "state", "completed_at", "due_at", "failures", "crashes", "result", "error", "logs",
)  # fmt: skip


class SqlClaims(Driver):
    """The contract `Claims`. Each database finishes jobs in its own way."""

    hints: set[Notification]

    @abstractmethod
    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId) -> set[JobId]:
        """Write how attempts ended."""

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
        params = {
            "kind": kind.value, "tenant": tenant, "worker_id": worker_id, "now": now, "limit": limit,
            "due_from": due_from,
        }  # fmt: skip
        claims = [_claim(row) for row in self._fetch("claim_jobs", params)]
        claims.sort(key=_by_due)  # `returning` promises no order
        return claims

    def claim_suspect(self, kind: FunctionKind, *, worker_id: WorkerId, now: Instant) -> Claim | None:
        rows = self._fetch("claim_suspect", {"kind": kind.value, "worker_id": worker_id, "now": now})
        return _claim(rows[0]) if rows else None

    def suspect_due_at(self, kind: FunctionKind) -> Instant | None:
        rows = self._fetch("suspect_due_at", {"kind": kind.value})
        return rows[0][0] if rows else None

    def waiting_tenants(
        self, kind: FunctionKind, *, limit: int, after: TenantId = NO_TENANT
    ) -> list[tuple[TenantId, Instant]]:
        params = {"kind": kind.value, "limit": limit, "after": after}
        return [(r[0], r[1]) for r in self._fetch("waiting_tenants", params)]

    def note_error(self, job_id: JobId, error: Stored[JobError], *, worker_id: WorkerId, attempt: int) -> None:
        params = {"id": job_id, "error": text_of(error), "worker_id": worker_id, "attempt": attempt}
        self._run("note_error", params)

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        return bool(self._fetch("lock_claim", {"id": job_id, "worker_id": worker_id, "attempt": attempt}))

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        rows = self._fetch("held_jobs", {"worker_id": worker_id, "limit": limit})
        return [_claim(row) for row in rows]

    def block_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        self._run("block_job", {"id": job_id, "worker_id": worker_id, "attempt": attempt})

    def release_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        if self._run("release_job", {"id": job_id, "worker_id": worker_id, "attempt": attempt}):
            self.hints.update(DUE.values())

    def blocked_names(self) -> set[str]:
        return {r[0] for r in self._fetch("blocked_names", {})}

    def unblock_jobs(self, name: str, kind: FunctionKind | None = None) -> int:
        count = self._run("unblock_jobs", {"name": name, "kind": None if kind is None else kind.value})
        if count:
            self.hints.update(DUE.values() if kind is None else (DUE[kind],))
        return count


def end_row(end: JobEnd) -> Row:
    """A JobEnd in the order of END_COLUMNS."""
    return (
        end.id, end.attempt, end.state.value, end.completed_at, end.due_at,
        end.failures, end.crashes, end.result, text_of(end.error), end.logs,
    )  # fmt: skip


def _by_due(claim: Claim) -> tuple[int, str]:
    return (claim.due_at, claim.id)


def _claim(r: Row) -> Claim:
    # Most jobs carry neither of the three, and this runs for every job.
    if r[10] is None and r[11] is None and r[12] is None:
        return Claim(r[0], r[1], _KINDS[r[2]], *r[3:])
    return Claim(
        r[0], r[1], _KINDS[r[2]], r[3], r[4], r[5], r[6], r[7], r[8], r[9],
        RETRY.optional(r[10]), COMPLETION.optional(r[11]), OCCURRENCE.optional(r[12]),
    )  # fmt: skip
