"""Pages of lists, and the limits of the queries for dashboards."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evertick.base.ids import ScheduleId
from evertick.base.instants import Instant
from evertick.base.records.history import (
    JobPosition,
    LinePosition,
    StoredLine,
)
from evertick.base.records.jobs import JobSummary


class JobsFound(NamedTuple):
    """A page of jobs. `after` is where the next one begins; None if nothing is left.

    A page of a list with filters that no index serves may have few jobs, or none, although more follow.
    """

    jobs: list[JobSummary]
    after: str | None


class WaitingFound(NamedTuple):
    """A page of jobs that wait for their time. `after` is where the next one begins; as in `JobsFound`."""

    jobs: list[JobSummary]
    after: JobPosition | None


class LinesFound(NamedTuple):
    """A page of lines. `after` is where the next one begins; None if nothing is left; as in `JobsFound`."""

    lines: list[StoredLine]
    after: LinePosition | None


class TroubleLimits(NamedTuple):
    """The limits of the query for trouble.

    Jobs that failed since `hour_ago`, counted to `limit`. Whether one time was missed for one of `reasons` since
    `month_ago`, and `many` since `day_ago`. `shown` failing schedules, those that ran last first, with `runs`
    occurrences each; and the first `paused_max` paused ones. Runs that cannot continue and are retried until
    `stuck_until`: at most `stuck_most`, among the first `stuck_scan_max` jobs of all tenants that wait until then.
    Schedules whose next time came before `late_at` are overdue, counted to `limit`. `now` decides which pools have used
    their rate.
    """

    now: Instant
    reasons: Sequence[str]
    hour_ago: Instant
    day_ago: Instant
    month_ago: Instant
    limit: int
    shown: int
    runs: int
    paused_max: int
    many: int
    stuck_until: Instant
    stuck_scan_max: int
    stuck_most: int
    late_at: Instant


class MissedLimits(NamedTuple):
    """The limits of the query for missed times.

    The newest times that were missed for one of `reasons` since `since`, of each about `limit` at most. And times that
    the schedules in `pauses` skipped since an instant because they are paused, each counted to `skipped_most`.
    """

    reasons: Sequence[str]
    since: Instant
    limit: int
    pauses: Mapping[ScheduleId, Instant]
    skipped_most: int


class UpcomingLimits(NamedTuple):
    """The limits of the query for upcoming starts, in spans of `span` milliseconds from `start` on.

    It reads the first `limit` schedules of the tenant, and the first `scan_max` waiting jobs of all tenants.
    """

    now: Instant
    start: Instant
    until: Instant
    span: int
    limit: int
    scan_max: int
