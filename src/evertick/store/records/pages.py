"""Pages of lists, and how far is looked for what dashboards show."""

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
    """A page of jobs. `after` is where the next one begins, None if nothing is left.

    A page of a list with filters that no index serves may have few jobs, or none, and go on all the same.
    """

    jobs: list[JobSummary]
    after: str | None


class WaitingFound(NamedTuple):
    """A page of jobs that wait for their time. `after` is where the next one begins; as `JobsFound`."""

    jobs: list[JobSummary]
    after: JobPosition | None


class LinesFound(NamedTuple):
    """A page of lines. `after` is where the next one begins, None if nothing is left; as `JobsFound`."""

    lines: list[StoredLine]
    after: LinePosition | None


class TroubleLook(NamedTuple):
    """How far is looked for what is wrong.

    Jobs that failed since `hour_ago`, counted to `limit`. Whether one time was missed for one of `reasons` since
    `month_ago`, and `many` since `day_ago`. `shown` failing schedules, those that ran last first, with `runs`
    occurrences each; and the first `looked_at` paused ones. Runs that cannot go on and are tried again until
    `stuck_until`: at most `stuck_most`, among the first `stuck_look` jobs of all tenants that wait until then.
    Schedules whose next time came before `late_at` are overdue, counted to `limit`. `now` tells which pools have used
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
    looked_at: int
    many: int
    stuck_until: Instant
    stuck_look: int
    stuck_most: int
    late_at: Instant


class MissedLook(NamedTuple):
    """How far is looked for what was missed.

    The newest times that were missed for one of `reasons` since a moment, of each about `limit` at most. And times that
    the schedules in `pauses` skipped since a moment because they are paused, each counted to `skipped_most`.
    """

    reasons: Sequence[str]
    since: Instant
    limit: int
    pauses: Mapping[ScheduleId, Instant]
    skipped_most: int


class ComingLook(NamedTuple):
    """Until when to look for what comes, in spans of so many milliseconds from `start` on.

    At the first `limit` schedules of the tenant, and the first `look` waiting jobs of all tenants.
    """

    now: Instant
    start: Instant
    until: Instant
    span: int
    limit: int
    look: int
