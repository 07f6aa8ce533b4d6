"""Schemas of dashboards: success of functions, problems, recent changes and coming runs."""

from evertick.api.schema import Count, Moment, Page, Schema
from evertick.api.status import UnwritableView
from evertick.base.ids import JobId, WorkerId


class FunctionStats(Schema):
    """How a function does.

    `pending` to `canceled` are kept counts of its jobs, `not_retried` of the failed ones that were not run again.
    `runs_hour` and `failed_hour` are ended attempts and final failures since `FunctionStatsPage.hour_from`, those of
    the day since `day_from`. The durations and latenesses in milliseconds are of at most 200 recent jobs, None where
    there are none. `late` are due jobs that wait for more than ten seconds. `next_due` is the next time of a job of
    it, as far as it is among the next 2,000.
    """

    name: str
    kind: str
    pools: tuple[str, ...]
    served: bool
    pending: int
    in_progress: int
    success: int
    failed: int
    canceled: int
    not_retried: int = 0
    runs_hour: int
    failed_hour: int
    runs_day: int
    failed_day: int
    p50_ms: int | None
    p99_ms: int | None
    late_p50_ms: int | None
    late_p99_ms: int | None
    late: int
    next_due: Moment | None


class FunctionStatsPage(Page):
    """A page of functions by name; `cursor` is where the next one begins."""

    functions: tuple[FunctionStats, ...]
    hour_from: Moment
    day_from: Moment
    cursor: str | None


class PoolStats(Schema):
    """How a pool does, by the tenant's newest 1,000 jobs that have ended: `jobs` of them were in this pool.

    `failed` of these failed, of which `not_retried` were not run again; the first of them ended at `since`.
    `wait_p50_ms` and `wait_p99_ms` are how long after their due time their last attempts began.
    """

    pool: str
    jobs: int
    failed: int
    not_retried: int = 0
    since: Moment
    wait_p50_ms: int | None
    wait_p99_ms: int | None


class QueuedView(Schema):
    """Due jobs of a pool that wait for a worker: how many, since when, and how many for more than ten seconds."""

    pool: str
    jobs: Count
    oldest: Moment
    late: Count


class AttentionView(Schema):
    """Something that needs attention.

    `problem` is `missed`, `unreadable` (a schedule that no worker can read, so it does not run), `overdue` (the
    next time of schedules was due more than ten seconds ago, and no worker has evaluated it; `name` is the first of
    them), `unserved` (jobs are due, and no live worker runs their function in their pool), `held` (jobs are due,
    and their pool is paused), `stuck` (runs of a workflow cannot go on; `job_id` is the oldest of them), `failing`
    (a schedule), `failed` (jobs of a function failed in the last hour and were not run again, some of them not
    those of failing schedules; `job_id` is the last) or `paused`. `kind` says what `name` is: a `schedule`, a
    `function`, a `workflow` or a `pool`. `what` says what happened and `why` the reason, both in words. `count` is
    how many times, schedules, jobs or runs it concerns; `more` is set if there are more than that.
    `since` is the earliest moment of it that is known; of runs that cannot go on, when one was tried last, and of
    failed jobs, when the last one failed.
    """

    problem: str
    kind: str
    name: str
    what: str
    why: str
    count: int
    more: bool
    since: Moment
    job_id: JobId | None = None


class OutageView(Schema):
    """A span in which no worker evaluated schedules, longer than some of them catch up.

    No worker evaluated schedules from `start`, the first missed time that is known, to `end`. The workers went in the
    span between `last_evaluated`, when one last evaluated a time of any schedule, and `start`. `missed` times of
    `schedules` schedules were missed in it, and `caught_up` of them were started or queued since, by backfills or
    triggers; `more` if there are more than these.
    """

    start: Moment
    end: Moment
    last_evaluated: Moment | None = None
    missed: int
    caught_up: int
    schedules: int
    more: bool


class OverviewView(Schema):
    """How the tenant is doing now.

    `lag_ms` is how long the oldest due job waits that a live worker serves, 0 if none does; jobs of paused pools are
    left out. `lag_p99_ms` is how late 99 of 100 attempts of the last hour began, None if there was none. `late`
    are jobs due for more than ten seconds. Jobs of pools whose `starts_per_minute` are used wait by plan, and are
    in neither `lag_ms` nor `late`. `overdue_schedules` are those whose next time was due more than ten seconds ago
    and no worker has evaluated it, the first at `overdue_since`. `failed_hour` are jobs that failed in the last
    hour, which begins with a whole minute, whatever became of them; `not_retried_hour` are those of them that were
    not run again. `missed_day` are occurrences that were found missed in the last 24 hours and not caught up since.
    `queued` is by pool. `lost` are workers whose lease is over and whose jobs are not given back yet. `outages` are
    those that ended in the last 24 hours, the newest first. `unwritable` is None while the database can be written.
    """

    at: Moment
    lag_ms: int
    lag_p99_ms: int | None
    late: Count
    overdue_schedules: Count = Count(number=0)
    overdue_since: Moment | None = None
    failed_hour: Count
    not_retried_hour: Count = Count(number=0)
    missed_day: Count
    queued: tuple[QueuedView, ...]
    alive: int
    lost: tuple[WorkerId, ...]
    failing_schedules: Count
    paused_schedules: Count
    outages: tuple[OutageView, ...] = ()
    attention: tuple[AttentionView, ...]
    unwritable: UnwritableView | None = None


class MinuteView(Schema):
    """A minute, or ten of one function or pool: attempts that ended, failed for good or will be retried, how late."""

    at: Moment
    ended: int
    failed: int
    canceled: int
    retried: int
    late_p50_ms: int | None
    late_p99_ms: int | None


class ActivityView(Schema):
    """The minutes of a span in which anything ended, in order; of one function or pool, each ten minutes.

    Workers write a minute down when it is over.
    """

    start: Moment
    end: Moment
    minutes: tuple[MinuteView, ...]


class ComingView(Schema):
    """What will start, by buckets of `bucket_ms` from `start` on: `starts` of schedules, and `jobs` that are due then.

    `schedules` is how many schedules were counted, those due first; `complete` is False if there are more, or more
    different specs than are read. Jitter is left out. `jobs` are those that wait for their time, without runs of
    workflows; `all_jobs` is False if more wait than were read, which are the first of all tenants.
    """

    start: Moment
    bucket_ms: int
    starts: tuple[int, ...]
    jobs: tuple[int, ...]
    schedules: int
    complete: bool
    all_jobs: bool

    @property
    def both(self) -> tuple[int, ...]:
        """The starts of schedules and the jobs of each bucket."""
        return tuple(map(sum, zip(self.starts, self.jobs, strict=True)))


class ChangeView(Schema):
    """Something that was changed: by whom, what was done (`schedule.paused`, `job.cancel`), and to which thing."""

    at: Moment
    actor: str
    action: str
    target: str
    detail: str


class FoundView(Schema):
    """Something that a search found. `kind` is schedule, function, job or run; `label` says more of it.

    `key` is that of a job or a run which has one.
    """

    kind: str
    id: str
    label: str
    key: str | None = None
