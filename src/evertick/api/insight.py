"""Schemas of the dashboard: statistics of functions and pools, problems, recent changes and upcoming runs."""

from evertick.api.schema import Count, Moment, Page, Schema
from evertick.api.status import UnwritableView
from evertick.base.ids import JobId, WorkerId


class FunctionStats(Schema):
    """Statistics of a function.

    `served` is True if a live worker runs the function. `pending`, `in_progress`, `success`, `failed` and `canceled`
    are the numbers of its jobs in these states. `not_retried` is how many of the failed jobs were not run again.

    `runs_hour` is the number of attempts that have ended since `FunctionStatsPage.hour_from`. `failed_hour` is the
    number of jobs that have failed for good since then. `runs_day` and `failed_day` count since
    `FunctionStatsPage.day_from`.

    `p50_ms` and `p99_ms` are percentiles of the duration of attempts, `late_p50_ms` and `late_p99_ms` of their
    lateness, in milliseconds. They come from at most 200 recent jobs, and are None if there are none. `late` is the
    number of jobs that have been due for more than ten seconds. `next_due` is when the next job of the function is due.
    It is None if none of the next 2,000 pending jobs is of this function.
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
    """A page of functions, ordered by name. `cursor` continues the list; it is None on the last page."""

    functions: tuple[FunctionStats, ...]
    hour_from: Moment
    day_from: Moment
    cursor: str | None


class PoolStats(Schema):
    """Statistics of a pool.

    They come from the newest 1,000 ended jobs of the tenant. `jobs` is how many of these jobs were in this pool, and
    `since` is when the first of them ended. `failed` is how many of `jobs` failed. `not_retried` is how many of the
    failed jobs were not run again. `wait_p50_ms` and `wait_p99_ms` are percentiles of the time from when a job was due
    to the start of its last attempt, in milliseconds. They are None if there are none.
    """

    pool: str
    jobs: int
    failed: int
    not_retried: int = 0
    since: Moment
    wait_p50_ms: int | None
    wait_p99_ms: int | None


class QueuedView(Schema):
    """Due jobs of a pool that wait for a worker.

    `oldest` is when the first of them was due. `late` is how many have been due for more than ten seconds.
    """

    pool: str
    jobs: Count
    oldest: Moment
    late: Count


class AttentionView(Schema):
    """A problem that needs attention.

    `problem` is one of these:

    - `missed`: times of a schedule were missed.
    - `unreadable`: a schedule does not run, because no worker can read it.
    - `overdue`: the next time of schedules was due more than ten seconds ago, and no worker has evaluated it. `name` is
      the first of these schedules.
    - `unserved`: jobs are due, and no live worker runs their function in their pool.
    - `held`: jobs are due, and their pool is paused.
    - `stuck`: runs of a workflow cannot continue. `job_id` is the oldest of them.
    - `failing`: the last run of a schedule failed.
    - `failed`: jobs of a function failed in the last hour and were not run again. At least one of them does not belong
      to a failing schedule. `job_id` is the last one that failed.
    - `paused`: a schedule has been paused for a long time. `count` is the number of times skipped since.

    `kind` is the type of the object `name`: `schedule`, `function`, `workflow` or `pool`. `what` says what happened and
    `why` says why, both as text. `count` is the number of times, schedules, jobs or runs with the problem. `more` is
    True if there are more than `count`. `since` is when the problem began, as far as is known. For `stuck` it is when a
    run was last tried, and for `failed` when the last job failed.
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
    """A period in which no worker evaluated schedules, and which was too long for some schedules to catch up.

    `start` is the first missed time that is known. `end` is when a worker evaluated schedules again. `last_evaluated`
    is when a worker last evaluated a time of any schedule before the period, None if it is not known. The workers
    stopped between `last_evaluated` and `start`. `missed` is how many times of `schedules` schedules were missed in the
    period. `caught_up` is how many of them were started or queued since, by backfills or triggers. `more` is True if
    the real numbers are higher.
    """

    start: Moment
    end: Moment
    last_evaluated: Moment | None = None
    missed: int
    caught_up: int
    schedules: int
    more: bool


class OverviewView(Schema):
    """The current state of a tenant.

    `lag_ms` is how long the oldest due job has been waiting, in milliseconds. Only jobs that a live worker serves
    count. It is 0 if there are none. `lag_p99_ms` is the 99th percentile of the lateness of attempts in the last hour,
    None if there were no attempts. `late` is the number of jobs that have been due for more than ten seconds. `lag_ms`
    ignores the jobs of paused pools. `lag_ms` and `late` ignore the jobs of pools that have used up their
    `starts_per_minute`.

    `overdue_schedules` are schedules whose next time was due more than ten seconds ago, and was not evaluated by any
    worker. `overdue_since` is the first of these times, None if there are none. `failed_hour` is how many jobs failed
    in the last hour, including those that were retried since. The hour begins with a whole minute. `not_retried_hour`
    is how many of them were not run again. `missed_day` is how many occurrences were found missed in the last 24 hours
    and were not caught up since.

    `queued` has the waiting jobs of each pool. `alive` is the number of live workers. `lost` are workers whose lease
    has expired and whose jobs have not been released yet. `outages` are those that ended in the last 24 hours, newest
    first. `unwritable` is None if the database can be written.
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
    """Counts of attempts in one minute, or in ten minutes if they are of one function or pool.

    `ended` is how many attempts ended. `failed` is how many of them failed for good, and `retried` how many will be
    retried. `late_p50_ms` and `late_p99_ms` are percentiles of their lateness in milliseconds, None if there are none.
    """

    at: Moment
    ended: int
    failed: int
    canceled: int
    retried: int
    late_p50_ms: int | None
    late_p99_ms: int | None


class ActivityView(Schema):
    """The attempts that ended between `start` and `end`, by minute; by ten minutes for one function or pool.

    `minutes` is in order, and leaves out minutes in which no attempt ended. Workers record a minute when it is over, so
    the current minute is missing.
    """

    start: Moment
    end: Moment
    minutes: tuple[MinuteView, ...]


class ComingView(Schema):
    """The number of upcoming starts of schedules and upcoming jobs, over time.

    The counts are in buckets of `bucket_ms` milliseconds, the first of which begins at `start`. `starts` has the starts
    of schedules in each bucket, without jitter. `schedules` is how many schedules were counted, those with the earliest
    next time first. `complete` is False if there are more schedules, or more different specs, than are read.

    `jobs` has the number of jobs that are due in each bucket, without workflow runs. `all_jobs` is False if there are
    more waiting jobs than are read. The jobs that are read are the first of all tenants.
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
        """Starts of schedules and jobs of each bucket."""
        return tuple(map(sum, zip(self.starts, self.jobs, strict=True)))


class ChangeView(Schema):
    """A change: who made it and what was changed.

    `actor` is who made it. `action` is the kind of change, such as `schedule.paused` or `job.cancel`. `target` is the
    object that was changed.
    """

    at: Moment
    actor: str
    action: str
    target: str
    detail: str


class FoundView(Schema):
    """A result of a search.

    `kind` is `schedule`, `function`, `job` or `run`. `label` is a description. `key` is the key of a job or run, None
    if it has none.
    """

    kind: str
    id: str
    label: str
    key: str | None = None
