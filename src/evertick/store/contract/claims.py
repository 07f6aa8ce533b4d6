"""The contract for claims: a worker takes jobs, holds them and ends them."""

from collections.abc import Sequence
from typing import Final, Protocol

from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import Claim, FunctionKind, JobEnd, JobError
from evertick.base.records.stored import Stored

NO_TENANT: Final = TenantId("")
"""Comes before every tenant's name."""


class Claims(Protocol):
    """What a transaction can do with claims: a worker takes jobs, holds them and ends them."""

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
        """Lease up to `limit` due jobs to `worker_id`, earliest due first; what others are claiming is skipped.

        `due_from`: leave out what was due before. Where nothing is left there, it spares PostgreSQL the way over all
        that was claimed since the last VACUUM: with half a million of them a claim took 13 ms.
        Suspects, which `SUSPECT_CRASHES` or more of their workers did not survive, are left to `claim_suspect`.
        """
        ...

    def claim_suspect(self, kind: FunctionKind, *, worker_id: WorkerId, now: Instant) -> Claim | None:
        """Lease the earliest due suspect of any tenant's to `worker_id`."""
        ...

    def suspect_due_at(self, kind: FunctionKind) -> Instant | None:
        """When the earliest pending suspect of `kind` is due."""
        ...

    def waiting_tenants(
        self, kind: FunctionKind, *, limit: int, after: TenantId = NO_TENANT
    ) -> list[tuple[TenantId, Instant]]:
        """Tenants with pending jobs of `kind` that are no suspects, and when the earliest of each is due.

        In an order of their names, beyond the name `after`.
        """
        ...

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId) -> set[JobId]:
        """Write how attempts ended. Returns the jobs that `worker_id` still held; the others are unchanged.

        A job that was asked to stop ends only as canceled: with any other end it is unchanged, too.
        A job stands in `ends` once. A success repeats its claim's `due_at`, `failures` and `crashes`, and has no error.
        """
        ...

    def note_error(self, job_id: JobId, error: Stored[JobError], *, worker_id: WorkerId, attempt: int) -> None:
        """Say of a job that runs what is wrong with it, if it is held; its end replaces that."""
        ...

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        """Whether the job is in progress under (worker, attempt). Waits for a COMMIT that is still under way.

        For `write` only. Ask at READ_COMMITTED: a SERIALIZABLE transaction that had to wait ends in a WriteConflict.
        """
        ...

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        """What a worker holds."""
        ...

    def block_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        """Hand back a claimed job whose function this worker does not know."""
        ...

    def release_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        """Hand back a claimed job that was not begun: it is pending as before, but for the attempt."""
        ...

    def blocked_names(self) -> set[str]:
        """Functions that blocked jobs wait for."""
        ...

    def unblock_jobs(self, name: str, kind: FunctionKind | None = None) -> int:
        """Let the blocked jobs of a function be claimed again, as of that kind if one is given; returns how many."""
        ...
