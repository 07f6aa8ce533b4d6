"""Workers over SQL: the processes that run jobs, and their leases."""

from collections.abc import Sequence

from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import SERVES, Worker
from evertick.base.records.stored import text_of
from evertick.store.transaction.statement_runner import Driver, Row


class Workers(Driver):
    """The processes that run jobs, and their leases."""

    def register_worker(self, worker: Worker) -> None:
        """Store a worker that starts to run jobs."""
        self._run(
            "register_worker",
            {
                "id": worker.id,
                "started_at": worker.started_at,
                "leased_until": worker.leased_until,
                "host": worker.host,
                "pid": worker.pid,
                "app": worker.app,
                "release": worker.release,
                "serves": text_of(worker.serves),
                "code": worker.code,
                "zone_data": worker.zone_data,
            },
        )

    def renew_lease(self, worker_id: WorkerId, *, leased_until: Instant) -> bool:
        """Renew a worker's lease. Return False if it was taken away: then the worker must stop at once."""
        return self._run("renew_lease", {"id": worker_id, "leased_until": leased_until}) == 1

    def remove_worker(self, worker_id: WorkerId) -> None:
        """Remove a worker."""
        self._run("remove_worker", {"id": worker_id})

    def expired_workers(self, now: Instant, *, limit: int) -> list[Worker]:
        """Workers whose lease has expired, the longest dead first, locked against other reapers. For `write` only."""
        return [_worker(row) for row in self._fetch("expired_workers", {"now": now, "limit": limit})]

    def holders_without_row(self) -> list[WorkerId]:
        """Identities that have claimed jobs but are no workers any more: they claimed while they were being reaped."""
        return [r[0] for r in self._fetch("holders_without_row", {})]

    def list_workers(self) -> list[Worker]:
        """Every worker, oldest first."""
        return [_worker(row) for row in self._fetch("list_workers", {})]

    def workers_alive(self, now: Instant, *, among: Sequence[Worker] | None = None) -> list[Worker]:
        """The live workers: their lease is valid or, on a SQLite file, a process has the engine's lock.

        `among` are the workers that `list_workers` has returned, if they were read already.
        """
        return [worker for worker in (self.list_workers() if among is None else among) if worker.leased_until > now]


def _worker(row: Row) -> Worker:
    return Worker(row[0], row[1], row[2], row[3], row[4], row[5], row[6], SERVES.optional(row[7]), row[8], row[9])
