"""Schemas of the state of a database: workers, waiting jobs, and failures."""

from typing import Self

from evertick.api.schema import Moment, RowReading, Schema
from evertick.api.workflows import WorkflowTypeView
from evertick.base.ids import JobId, ScheduleId, TenantId, WorkerId, pool_name
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.jobs import Worker


class UnwritableView(Schema):
    """A database that can be read but not written.

    `since` is when the program that checked first found this. `reason` says why writes fail.
    """

    since: Moment
    reason: str


class WorkerView(Schema):
    """A worker.

    `pools` is None if the worker serves all pools. `functions` are the functions that its jobs can call. `leased_until`
    is when its lease ends. It is None for a live worker that does not renew a lease, because it is the only worker of
    an SQLite file. `unreadable` has one line for each column that this release cannot read: its name and the reason.
    """

    id: WorkerId
    app: str
    host: str
    pid: int
    started: Moment
    leased_until: Moment | None
    alive: bool
    release: str
    pools: tuple[str, ...] | None
    functions: tuple[str, ...]
    unreadable: tuple[str, ...] = ()

    @classmethod
    def of(cls, worker: Worker, *, alive: bool, now: Instant) -> Self:
        """The view of a worker's row."""
        reading = RowReading()
        serves = reading.value("serves", worker.serves)
        return cls(
            id=worker.id,
            app=worker.app,
            host=worker.host,
            pid=worker.pid,
            started=to_datetime(worker.started_at),
            leased_until=None if alive and worker.leased_until <= now else to_datetime(worker.leased_until),
            alive=alive,
            release=worker.release,
            pools=None if serves is None or serves.pools is None else tuple(pool_name(each) for each in serves.pools),
            functions=() if serves is None else tuple(each.name for each in serves.functions),
            unreadable=reading.problems,
        )


class QueueView(Schema):
    """The unfinished jobs of a function of a tenant in a pool.

    `app` is None for jobs that belong to no app. `due` is how many jobs are due and wait for a worker. `oldest` is when
    the first of them was due. `later` is how many are not due yet. `blocked` is how many of the due jobs no live worker
    can run. `running` counts only actions: workers claim many mutations at once, and these count as due until they are
    done. `held` says which limit of the pool keeps due jobs from starting, None if none does.
    """

    tenant: TenantId
    app: str | None
    function: str
    pool: str
    due: int
    later: int
    running: int
    blocked: int
    oldest: Moment | None
    held: str | None


class FailureView(Schema):
    """The failures of a function of a tenant in the last hour. Jobs that were run again since do not count.

    `count` is how many jobs failed. `last`, `job_id` and `error` are those of the last failure.
    """

    tenant: TenantId
    function: str
    count: int
    last: Moment
    job_id: JobId
    error: str


class StuckView(Schema):
    """The runs of a workflow of a tenant that cannot continue for the same reason.

    `count` is the number of runs. `tried` is when one of them was last tried. `job_id` is the oldest run. `error` says
    why they cannot continue.
    """

    tenant: TenantId
    function: str
    count: int
    tried: Moment
    job_id: JobId
    error: str


class OverdueView(Schema):
    """The schedules of a tenant whose next time was due more than ten seconds ago, and was not evaluated by any worker.

    `schedules` is the number of schedules. `since` is the first of these times. Nothing starts for these times until a
    worker evaluates them.
    """

    tenant: TenantId
    schedules: int
    since: Moment


class MissedView(Schema):
    """A schedule with missed times.

    `times` is how many were found missed in the last 24 hours and were not run since by a trigger or a backfill.
    """

    tenant: TenantId
    schedule: ScheduleId
    times: int


class UnreadableView(Schema):
    """A schedule of a tenant that this release cannot read. It does not run.

    `why` has each unreadable column and the reason.
    """

    tenant: TenantId
    schedule: ScheduleId
    why: str


class StatusView(Schema):
    """The state of the jobs and schedules of some tenants, and of all workers of the database.

    `workers` is empty if the request was made with a token of one tenant. `lag_ms` is how long the oldest due job that
    a live worker could run has been waiting, in milliseconds; 0 if none waits. It ignores the jobs of paused pools and
    of pools that have used up their `starts_per_minute`.

    `failures` are those of the last hour, without jobs that were run again since. `retried` is how many failed jobs of
    the last hour were run again. `stuck` are workflow runs that cannot continue, for example because the code does not
    fit their journal. `inactive` are workflows that are paused or deprecated, so that no run of them starts. `overdue`
    are schedules whose next time was not evaluated by any worker. `missed` are schedules with times that were found
    missed in the last 24 hours. `unreadable` are schedules that this release cannot read.

    `complete` is False if there were more jobs, schedules or tenants than are read. `unwritable` is None if the
    database can be written. `isolation` is the weakest isolation of the last scripts of these tenants. It is None if no
    worker runs scripts, or if no script has run.
    """

    tenants: tuple[TenantId, ...]
    at: Moment
    workers: tuple[WorkerView, ...]
    lag_ms: int
    queues: tuple[QueueView, ...]
    failures: tuple[FailureView, ...]
    inactive: tuple[WorkflowTypeView, ...]
    complete: bool
    unwritable: UnwritableView | None = None
    stuck: tuple[StuckView, ...] = ()
    overdue: tuple[OverdueView, ...] = ()
    missed: tuple[MissedView, ...] = ()
    unreadable: tuple[UnreadableView, ...] = ()
    retried: int = 0
    isolation: str | None = None
