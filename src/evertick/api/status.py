"""Schemas of a database's state: its workers, what waits for them, and what failed."""

from typing import Self

from evertick.api.schema import Moment, RowReading, Schema
from evertick.api.workflows import WorkflowTypeView
from evertick.base.ids import JobId, ScheduleId, TenantId, WorkerId, pool_name
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.jobs import Worker


class UnwritableView(Schema):
    """A database that can be read and not written: since when the program that checked knows it, and why."""

    since: Moment
    reason: str


class WorkerView(Schema):
    """A worker. `pools` is None for one that serves every pool; `functions` are those that jobs can call. `unreadable`
    says of which columns of its row this release cannot read, and why.

    `leased_until` is None for a live worker that renews no lease, as the only one of an SQLite file.
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
    """A tenant's unfinished jobs of a function in a pool. `app` is None for those of no app.

    `due` wait for a worker since `oldest` at the longest, `later` for their time; `blocked` are those of `due` that no
    live worker runs. Workers claim many mutations at once, so those count as due until they are done; what is `running`
    are actions. `held` says what limit of the pool keeps those that are due from starting; None if none does.
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
    """A tenant's failures of a function in the last hour: how many, and the last of them.

    Without jobs that were run again since.
    """

    tenant: TenantId
    function: str
    count: int
    last: Moment
    job_id: JobId
    error: str


class StuckView(Schema):
    """A tenant's runs of a workflow that cannot go on for the same reason: how many, when one was tried last, and the
    oldest of them.
    """

    tenant: TenantId
    function: str
    count: int
    tried: Moment
    job_id: JobId
    error: str


class OverdueView(Schema):
    """A tenant's schedules whose next time was due more than ten seconds ago, and no worker has evaluated it.

    `schedules` is how many they are, and `since` the first of these times. Times that no worker evaluates wait with all
    that they would start.
    """

    tenant: TenantId
    schedules: int
    since: Moment


class MissedView(Schema):
    """A schedule of which `times` were found missed in the last 24 hours that no trigger or backfill has run since."""

    tenant: TenantId
    schedule: ScheduleId
    times: int


class UnreadableView(Schema):
    """A tenant's schedule that this release cannot read, so it does not run, and why: by column."""

    tenant: TenantId
    schedule: ScheduleId
    why: str


class StatusView(Schema):
    """The state of the jobs of some tenants, and of all workers of the database; a token of a tenant is shown none.

    `lag_ms` is how long the oldest due job waits that a live worker could run, 0 if none waits; jobs of paused pools,
    and of those whose `starts_per_minute` are used, wait by plan and are left out. `inactive` are the paused and
    deprecated workflows: no run of them starts. `failures` are those of the last hour without jobs that were run again
    since; `retried` is how many these are. `stuck` are runs that cannot go on, such as those whose code does not fit
    their journal. `overdue` are schedules whose next time no worker has evaluated, `missed` those of which times were
    found missed in the last 24 hours, `unreadable` those that this release cannot read. `complete` is False if there
    were more jobs, schedules or tenants than are read. `unwritable` is None while the database can be written.
    `isolation` is the weakest one that the last scripts of these tenants ran with; None where no worker runs scripts,
    or none has run.
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
