"""Coverage: the functions and pools that the workers of a database serve together, and jobs that none of them runs."""

from collections.abc import Iterable

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobState, JobSummary, ServedFunction, Serves, Worker, belongs_to


def served(workers: Iterable[Worker]) -> list[Serves]:
    """The `Serves` of each worker whose row has one that can be read."""
    return [serves for serves in map(served_by, workers) if serves is not None]


def served_by(worker: Worker) -> Serves | None:
    """The functions and pools of a worker. None if its row has none or cannot be read: the other rows still count."""
    try:
        return None if worker.serves is None else worker.serves.value
    except SchemaMismatch:
        return None


def served_under(name: str, app: str | None, workers: Iterable[Worker]) -> ServedFunction | None:
    """The function that a worker runs under a name, in `app` unless that is None. Its retry policy is unknown."""
    apps = None if app is None else {app}
    found = (each for serves in served(workers) for each in serves.functions)
    return next((each for each in found if each.name == name and belongs_to(each.pool, apps)), None)


def blocked(jobs: Iterable[JobSummary], workers: Iterable[Worker], now: Instant) -> set[JobId]:
    """The ids of due jobs whose function no live worker runs in their pool. Empty if no worker is alive."""
    known = served(workers)
    due = (job for job in jobs if job.state is JobState.PENDING and job.due_at <= now) if known else ()
    return {job.id for job in due if not any(serves.runs(job.name, job.pool) for serves in known)}
