"""What the workers of a database serve together, and which jobs none of them runs."""

from collections.abc import Iterable

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobState, JobSummary, ServedFunction, Serves, Worker, belongs_to


def served(workers: Iterable[Worker]) -> list[Serves]:
    """What each of some workers serves, as far as their rows say and can be read."""
    return [serves for serves in map(served_by, workers) if serves is not None]


def served_by(worker: Worker) -> Serves | None:
    """What a worker serves; None if its row does not say, or cannot be read: the row of one hides no other."""
    try:
        return None if worker.serves is None else worker.serves.value
    except SchemaMismatch:
        return None


def served_under(name: str, app: str | None, workers: Iterable[Worker]) -> ServedFunction | None:
    """What one of some workers runs under a name, in an app if one is given; its retry policy is not told."""
    apps = None if app is None else {app}
    found = (each for serves in served(workers) for each in serves.functions)
    return next((each for each in found if each.name == name and belongs_to(each.pool, apps)), None)


def blocked(jobs: Iterable[JobSummary], workers: Iterable[Worker], now: Instant) -> set[JobId]:
    """Those of the jobs that are due, while workers live and none of them has their function in their pool."""
    known = served(workers)
    due = (job for job in jobs if job.state is JobState.PENDING and job.due_at <= now) if known else ()
    return {job.id for job in due if not any(serves.runs(job.name, job.pool) for serves in known)}
