"""Records about jobs that are not in their rows: attempts, log lines, counts."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.stored import Stored

# -- Lines that a function logs, and the list that collects them while it runs.

LEVELS: Final = ("debug", "info", "warning", "error")
"""The levels of lines, the lowest first."""
LINES_MAX: Final = 256
LINE_CHARS_MAX: Final = 4_096


class LogLine(NamedTuple):
    """A line of an attempt. Numbers count from 0. The line with number LINES_MAX has no text: it marks that more
    followed.

    `is_cut`: the rest of the text, or further lines, are not stored.
    """

    number: int
    at: Instant
    level: str
    text: str
    is_cut: bool = False


def line_of(number: int, at: Instant, level: str, text: str) -> LogLine:
    """A line; a long text is cut to LINE_CHARS_MAX characters."""
    return LogLine(number, at, level, text[:LINE_CHARS_MAX], len(text) > LINE_CHARS_MAX)


class AttemptLog:
    """The lines of one attempt. One thread writes; another may take the lines that are not stored yet."""

    __slots__ = ("_lines", "_stored", "on_line")

    def __init__(self) -> None:
        self.on_line: Callable[[], object] | None = None
        """Called in the writer's thread after a line was added."""
        self._lines: list[LogLine] = []
        self._stored = 0

    def write(self, at: Instant, level: str, text: str) -> None:
        """Add a line. A long line is cut; lines after LINES_MAX are dropped."""
        number = len(self._lines)
        if number < LINES_MAX:
            self._lines.append(line_of(number, at, level, text))
        elif number == LINES_MAX:
            self._lines.append(LogLine(number, at, level, "", is_cut=True))
        else:
            return
        if self.on_line is not None:
            self.on_line()

    def unstored(self) -> list[LogLine]:
        """The lines that are not stored yet."""
        return self._lines[self._stored :]

    def stored(self, count: int) -> None:
        """Mark the next `count` lines as stored."""
        self._stored += count


def append(lines: list[LogLine], more: Sequence[LogLine]) -> None:
    """Add lines of another function of the same attempt; at most LINES_MAX are kept in total."""
    for line in more:
        number = len(lines)
        if number > LINES_MAX:
            return
        is_last = number == LINES_MAX
        lines.append(line._replace(number=number, text="" if is_last else line.text, is_cut=is_last or line.is_cut))


class JobAttempt(NamedTuple):
    """An attempt at a job. `outcome` is None while it runs, else `success`, `failed`, `canceled` or `lost`."""

    attempt: int
    worker_id: WorkerId
    started_at: Instant | None
    ended_at: Instant | None
    outcome: str | None
    error: Stored[Any] | None
    """The `JobError` of an attempt that failed."""


class JobLine(NamedTuple):
    """A line of a job's log, and the attempt that wrote it."""

    attempt: int
    line: LogLine


class AttemptLines(NamedTuple):
    """New lines of an attempt at a tenant's job, which calls the function `name`."""

    job_id: JobId
    attempt: int
    lines: Sequence[LogLine]
    tenant: TenantId
    name: str


class JobPosition(NamedTuple):
    """The position of a job in the order of due times."""

    due_at: Instant
    job_id: JobId


class LinePosition(NamedTuple):
    """The position of a line among all lines of its tenant, in the order in which they were stored.

    A mutation's lines are stored when it commits, an action's within a second of writing.
    """

    stored_at: Instant
    job_id: JobId
    attempt: int
    number: int


class StoredLine(NamedTuple):
    """A line of a function's log with its position, for lists."""

    place: LinePosition
    name: str
    line: LogLine


class LineFilter(NamedTuple):
    """A filter of a tenant's lines; None does not filter. `since` and `until` (exclusive) are times of storing."""

    tenant: TenantId = DEFAULT_TENANT
    name: str | None = None
    levels: tuple[str, ...] | None = None
    text: str | None = None
    """A part of the text, case-insensitive."""
    jobs: tuple[JobId, ...] | None = None
    since: Instant | None = None
    until: Instant | None = None


class JobCounts(NamedTuple):
    """The number of jobs by visible state, and of failed jobs that were not retried."""

    pending: int = 0
    in_progress: int = 0
    success: int = 0
    failed: int = 0
    canceled: int = 0
    not_retried: int = 0


class ChangeMarks(NamedTuple):
    """A mark for each kind of a tenant's data: it differs if something of that kind has changed."""

    jobs: str
    schedules: str
    logs: str


class JobGroup(NamedTuple):
    """Unfinished jobs of a function in a pool, counted by state.

    `doing` is "running" (an action), "claimed", "due" or "later".
    """

    tenant: TenantId
    name: str
    pool: str
    doing: str
    jobs: int
    """Their number."""
    oldest: Instant
    """The earliest time at which one of them is due."""


class FailedJob(NamedTuple):
    """A job that failed, and whether it was retried since."""

    tenant: TenantId
    name: str
    completed_at: Instant
    id: JobId
    is_retried: bool
