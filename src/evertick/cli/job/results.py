"""What sessions return of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evertick.base.errors import Conflict

if TYPE_CHECKING:
    from evertick.api.jobs import JobLogLine, JobView


class JobFinished(Conflict):
    """The job has ended, so there is nothing to cancel."""

    code = "job_finished"


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """Jobs, and where to go on."""

    jobs: Sequence["JobView"]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Logged:
    """A job, the lines of its attempts by (attempt, number), whether some were cut, and whether no worker lives."""

    job: "JobView"
    lines: Sequence[tuple[tuple[int, int], "JobLogLine"]]
    is_truncated: bool
    is_alone: bool
