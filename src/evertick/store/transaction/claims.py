"""Claims over SQL: a worker takes jobs, holds them and ends them."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final

from evertick.base.ids import DEFAULT_POOL, JobId, QueueId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import LOST_WORKER
from evertick.base.records.jobs import COMPLETION, OCCURRENCE, Claim, FunctionKind, JobEnd, JobError, JobState
from evertick.base.records.retry import RETRY
from evertick.base.records.stored import Stored, text_of
from evertick.store.contract.claims import START, Head, Share, Suspect
from evertick.store.contract.notifications import DUE, Notification
from evertick.store.transaction.driver import Driver, Row

_KINDS: Final = {kind.value: kind for kind in FunctionKind}


class SqlClaims(Driver):
    """The contract `Claims`. Each database claims and finishes jobs in its own way."""

    hints: set[Notification]

    @abstractmethod
    def _move_to_history(self, ends: Sequence[JobEnd], worker_id: WorkerId) -> set[JobId]:
        """End jobs for good; returns those that were held."""

    @abstractmethod
    def _make_pending(self, ends: Sequence[JobEnd], worker_id: WorkerId, now: Instant) -> set[JobId]:
        """Make jobs pending again, and keep the attempts that ended; returns those that were held."""

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId, now: Instant) -> set[JobId]:
        final = [end for end in ends if end.state is not JobState.PENDING]
        held = self._move_to_history(final, worker_id) if final else set()
        if len(final) < len(ends):
            held |= self._make_pending([end for end in ends if end.state is JobState.PENDING], worker_id, now)
        return held

    @abstractmethod
    def _claim_rows(self, shares: Sequence[Share], params: dict[str, Any]) -> list[Row]:
        """Claim what `shares` say; `params` are kind, worker_id and bytes."""

    @abstractmethod
    def _numbers(self, numbers: Sequence[int]) -> Any:
        """A list of numbers as a statement takes it."""

    def next_waiting_at(self) -> Instant | None:
        rows = self._fetch("next_waiting_at", {})
        return rows[0][0] if rows else None

    def promote_jobs(self, *, now: Instant, limit: int) -> int:
        return self._run("promote_jobs", {"now": now, "limit": limit})

    def ready_heads(
        self, *, others: Sequence[QueueId] = (), after: Head = START, limit: int, steps: int = 1_000
    ) -> list[Head]:
        params = {
            "others": self._numbers(others), "queue": after.queue, "tenant": after.tenant, "limit": limit,
            "steps": steps,
        }  # fmt: skip
        return [Head(*row) for row in self._fetch("ready_heads", params)]

    def new_heads(self, known: Sequence[Head], *, others: Sequence[QueueId]) -> list[Head]:
        places = {head[:2] for head in known}
        heads = self.ready_heads(others=others, limit=len(known) + 1)
        return [head for head in heads if head[:2] not in places]

    def queue_name(self, queue: QueueId) -> tuple[str, str] | None:
        rows = self._fetch("queue_name", {"queue": queue})
        return (rows[0][0] or DEFAULT_POOL, rows[0][1]) if rows else None

    def claim_jobs(
        self, shares: Sequence[Share], *, kind: FunctionKind, worker_id: WorkerId, now: Instant, bytes_max: int
    ) -> list[Claim]:
        params = {"kind": kind.value, "worker_id": worker_id, "now": now, "bytes": bytes_max}
        return claims_of(self._claim_rows(shares, params))

    def suspects(self, *, limit: int) -> list[Suspect]:
        rows = self._fetch("suspects", {"limit": limit})
        return [Suspect(r[0], r[1], r[2], r[3], r[4] or DEFAULT_POOL, r[5], r[6]) for r in rows]

    def claim_suspect(self, job_id: JobId, *, kind: FunctionKind, worker_id: WorkerId, now: Instant) -> Claim | None:
        params = {"id": job_id, "kind": kind.value, "worker_id": worker_id, "now": now}
        rows = self._fetch("claim_suspect", params)
        return _claim(rows[0]) if rows else None

    def note_error(self, job_id: JobId, error: Stored[JobError], *, worker_id: WorkerId, attempt: int) -> None:
        params = {"id": job_id, "error": text_of(error), "worker_id": worker_id, "attempt": attempt}
        self._run("note_error", params)

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        return bool(self._fetch("lock_claim", {"id": job_id, "worker_id": worker_id, "attempt": attempt}))

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        rows = self._fetch("held_jobs", {"worker_id": worker_id, "limit": limit})
        return [_claim(row) for row in rows]

    def release_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        if self._run("release_job", {"id": job_id, "worker_id": worker_id, "attempt": attempt}):
            self.hints.update(DUE.values())


def outcome_of(end: JobEnd) -> str:
    """The outcome of an attempt that another one will follow."""
    return "lost" if end.error is None or end.error.value.type == LOST_WORKER else JobState.FAILED.value


def claims_of(rows: Iterable[Row]) -> list[Claim]:
    """The claims that a statement returned, by rank: `returning` promises no order."""
    return sorted(map(_claim, rows), key=_by_rank)


def _by_rank(claim: Claim) -> tuple[int, str]:
    return (claim.rank, claim.id)


def _claim(r: Row) -> Claim:
    # Most jobs carry neither of the three, and this runs for every job.
    if r[10] is None and r[11] is None and r[12] is None:
        return Claim(r[0], r[1], _KINDS[r[2]], *r[3:])
    return Claim(
        r[0], r[1], _KINDS[r[2]], r[3], r[4], r[5], r[6], r[7], r[8], r[9],
        RETRY.optional(r[10]), COMPLETION.optional(r[11]), OCCURRENCE.optional(r[12]), r[13], r[14], r[15],
    )  # fmt: skip
