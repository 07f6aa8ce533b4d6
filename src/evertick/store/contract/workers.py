"""The contract for the processes that run jobs, and their leases."""

from collections.abc import Sequence
from typing import Protocol

from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Worker


class Workers(Protocol):
    """What a transaction can do with the processes that run jobs, and their leases."""

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

    def workers_alive(self, now: Instant, *, among: Sequence[Worker] | None = None) -> list[Worker]:
        """Those that run: their lease holds or, on a SQLite file, a process holds the engine's lock.

        `among` are the workers that `list_workers` has returned, where they were read already.
        """
        ...
