"""The contract every store keeps: what the floors above may ask, and what they may rely on.

A `Store` runs *work*: a plain function over a `Transaction`. Everything the work did is there after it returned, or
nothing of it is. `write` makes one attempt; it raises

* `WriteConflict` when the transaction could not be serialized: nothing was written, running it again is safe;
* `DatabaseUnavailable` when the database did not answer: nothing was written;
* `OutcomeUnknown` when the connection broke during COMMIT: look the fact up (`is_held`, `find_call`), never repeat;
* `SchemaMismatch` when a table is missing, `Misuse` for a value that the database cannot keep: nothing was written;
* whatever the work itself raised: nothing was written.

A statement that fails spoils its transaction until `rollback_to` a savepoint made before it. A spoiled transaction
does not commit: `write` raises that failure again even if the work hid it.

Every transition repeats, in its `where`, the state it moves from, and answers what it found; so a zombie's write
changes nothing and is told so.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

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
    NewJob,
    StoredDocument,
    Worker,
)
from evertick.store.schedule_contract import ScheduleTransaction

T = TypeVar("T")
NO_TENANT: Final = TenantId("")
"""Comes before every tenant's name."""


class Hint(StrEnum):
    """What a commit made worth a look."""

    MUTATION = "mutation"
    """A mutation is due soon."""
    ACTION = "action"
    """An action is due soon."""
    SCHEDULE = "schedule"
    """A schedule was changed, or one of its runs has ended."""
    STOP = "stop"
    """A running job was asked to stop."""


Hints = frozenset[Hint]
EVERYTHING: Final[Hints] = frozenset(Hint)
"""For who cannot know what was changed."""
Listener = Callable[[Hints], object]


class Isolation(StrEnum):
    """How transactions see each other. SQLite's writers are always alone and whole, so there all are serializable."""

    SERIALIZABLE = "serializable"
    READ_COMMITTED = "read committed"
    """For claims and leases: they lock the rows they change."""
    EACH = "each"
    """Each statement is a transaction by itself, so that a server is asked as seldom as can be. For what is one
    statement mostly, and of use in parts: a claim, a job scheduled by a program.
    """
    RELAXED = "relaxed"
    """EACH, and no commit waits for the disk. A power cut may forget it, but not without what came after it. For claims
    of mutations: a forgotten one is a job that is still pending.
    """


class Transaction(ScheduleTransaction, Protocol):
    """One transaction. Methods are grouped by what they are about; none waits for anything but the database."""

    # -- jobs

    def insert_jobs(self, jobs: Sequence[NewJob]) -> None:
        """Write scheduled calls. Raises WriteConflict if another unfinished job holds one of their keys."""
        ...

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
        """Write how attempts ended. Answers the jobs that `worker_id` still held; the others are unchanged.

        A job stands in `ends` once. A success repeats its claim's `due_at`, `failures` and `crashes`, and has no error.
        """
        ...

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        """Whether the job is in progress under (worker, attempt). Waits for a COMMIT that is still under way.

        For `write` only. Ask at READ_COMMITTED: a SERIALIZABLE transaction that had to wait ends in a WriteConflict.
        """
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
        """Let the blocked jobs of a function be claimed again, as of that kind if one is given; answers how many."""
        ...

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        """What a worker holds."""
        ...

    def get_job(self, job_id: JobId, *, tenant: TenantId) -> Job | None:
        """One job, or None."""
        ...

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[Job]:
        """Jobs in the order of their creation, beyond the id `after`."""
        ...

    def count_jobs(self, tenant: TenantId) -> dict[str, int]:
        """How many jobs a tenant has, by visible state."""
        ...

    def cancel_job(self, job_id: JobId, *, tenant: TenantId, now: Instant) -> CanceledJob | None:
        """End an unfinished job; answers what follows from its end, or None if it was not unfinished."""
        ...

    def find_unfinished_key(self, key: str, *, tenant: TenantId) -> JobId | None:
        """The unfinished job that holds `key`."""
        ...

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        """Remove jobs that ended before `before`; answers how many."""
        ...

    # -- workers

    def register_worker(self, worker: Worker) -> None:
        """A process starts to run jobs."""
        ...

    def renew_lease(self, worker_id: WorkerId, *, leased_until: Instant) -> bool:
        """The worker lives. False once its lease was taken away: then it must stop at once."""
        ...

    def remove_worker(self, worker_id: WorkerId) -> None:
        """The worker is gone."""
        ...

    def expired_workers(self, now: Instant, *, limit: int) -> list[Worker]:
        """Workers whose lease ran out, the longest dead first, locked against other reapers. For `write` only."""
        ...

    def holders_without_row(self) -> list[WorkerId]:
        """Identities that hold jobs but are no workers any more: they claimed while they were being reaped."""
        ...

    def list_workers(self) -> list[Worker]:
        """Every worker, oldest first."""
        ...

    def workers_alive(self, now: Instant) -> list[Worker]:
        """Those that run: their lease holds or, on a SQLite file, somebody holds the engine's lock."""
        ...

    # -- documents

    def get_document(self, document_id: str, *, tenant: TenantId) -> str | None:
        """A document's JSON text, or None."""
        ...

    def put_documents(self, tenant: TenantId, documents: Sequence[StoredDocument]) -> None:
        """Write documents, new or changed. An id stands in `documents` once."""
        ...

    def delete_documents(self, tenant: TenantId, ids: Sequence[str]) -> None:
        """Remove documents; unknown ids are ignored."""
        ...

    def scan_documents(
        self, tenant: TenantId, *, low: str, high: str, limit: int, descending: bool
    ) -> list[StoredDocument]:
        """Documents with `low < id < high`, by id, which is by creation time."""
        ...

    def put_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """Write (index, key, document id) triples."""
        ...

    def delete_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """Remove (index, key, document id) triples."""
        ...

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
        """Documents in index order, keys in [low, high), beyond the position `after`."""
        ...

    def document_indexes(self, tenant: TenantId) -> dict[str, str]:
        """The indexes that are built: name to JSON list of fields."""
        ...

    def save_document_index(self, tenant: TenantId, index_name: str, fields: str) -> None:
        """An index is built now."""
        ...

    def drop_document_index(self, tenant: TenantId, index_name: str) -> None:
        """Remove an index with all its entries."""
        ...

    # -- remembered calls

    def find_call(self, key: str, *, tenant: TenantId) -> Call | None:
        """What a mutation called with this idempotency key answered."""
        ...

    def save_call(self, key: str, call: Call, *, tenant: TenantId, now: Instant) -> None:
        """Remember an answer. Raises WriteConflict if the key was saved meanwhile."""
        ...

    def prune_calls(self, *, before: Instant, limit: int) -> int:
        """Forget calls made before `before`; answers how many."""
        ...

    # -- the transaction itself

    def savepoint(self, name: str) -> None:
        """Mark a place to come back to."""
        ...

    def rollback_to(self, name: str) -> None:
        """Undo everything since the savepoint, and forget it."""
        ...

    def release(self, name: str) -> None:
        """Forget the savepoint and keep what was done."""
        ...

    def explain(self, error: BaseException) -> EvertickError | None:
        """What a driver's error means when it is none of the user's: a conflict, or a database that went away."""
        ...

    def check_usable(self) -> None:
        """After statements of the user's own: raise if one of them failed so that nothing can follow it.

        Raises the error of ours where the database was at fault, Misuse where the user hid an error of his own.
        """
        ...

    @property
    def connection(self) -> Any:
        """The driver's connection, for statements of the user's own in the same commit."""
        ...


class Store(Protocol):
    """A database: runs work in transactions, and tells who else changed something."""

    url: str
    dialect: str
    single_engine: bool
    """Whether at most one engine runs on this database: then no leases are needed, `lock_engine` is enough."""

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """Run `work` in one writing transaction, once, and commit."""
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one transaction that sees a single state and changes nothing.

        Raises Misuse if the work writes, and WriteConflict (rarely: then read again) if what it saw is no state that
        serializable transactions agree on.
        """
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to this code's version; answers the names of the steps taken."""
        ...

    def check_schema(self) -> None:
        """Raise SchemaMismatch if the schema is older or newer than this code."""
        ...

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` (from any thread) with the hints of commits after which somebody should look. They may be
        late, lost, repeated or too many. Answers a function that ends it.
        """
        ...

    def now_offset_ms(self) -> int:
        """How far the database's clock is ahead of this machine's; 0 where they are the same clock."""
        ...

    def lock_engine(self) -> None:
        """Claim the right to run an engine on this database, where only one may. Raises DatabaseLocked."""
        ...

    def unlock_engine(self) -> None:
        """Give that right back; nothing where it is not held."""
        ...

    def close(self) -> None:
        """Close every connection; further calls raise DatabaseUnavailable."""
        ...
