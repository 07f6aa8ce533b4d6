"""What sessions return of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evertick.base.errors import Conflict
from evertick.base.ids import JobId

if TYPE_CHECKING:
    from evertick.api.jobs import JobLogLine, JobView

BLOCKED: Final = "blocked: no worker runs this function"


class JobFinished(Conflict):
    """The job has ended, so there is nothing to cancel."""

    code = "job_finished"


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """Jobs, where to go on, and why those wait that are due."""

    jobs: Sequence["JobView"]
    cursor: str | None
    held: Mapping[JobId, str]


@dataclass(frozen=True, slots=True)
class Logged:
    """A job, the lines of its attempts by (attempt, number), whether some were cut, and whether no worker lives."""

    job: "JobView"
    lines: Sequence[tuple[tuple[int, int], "JobLogLine"]]
    is_truncated: bool
    is_alone: bool
