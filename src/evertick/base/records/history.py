"""Records of what is known of jobs beside their rows: attempts, lines of their logs, counts."""

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
    """A line of an attempt. Numbers count from 0. The line of number LINES_MAX has no text: it says that more followed.

    `is_cut`: the text, or what would have followed it, is not kept.
    """

    number: int
    at: Instant
    level: str
    text: str
    is_cut: bool = False


def line_of(number: int, at: Instant, level: str, text: str) -> LogLine:
    """A line, of a long text its beginning."""
    return LogLine(number, at, level, text[:LINE_CHARS_MAX], len(text) > LINE_CHARS_MAX)


class AttemptLog:
    """The lines of one attempt. One thread writes, another may take what is not stored yet."""

    __slots__ = ("_lines", "_stored", "on_line")

    def __init__(self) -> None:
        self.on_line: Callable[[], object] | None = None
        """Called in the writer's thread when a line was kept."""
        self._lines: list[LogLine] = []
        self._stored = 0

    def write(self, at: Instant, level: str, text: str) -> None:
        """Keep a line: the beginning of a long one, and at most LINES_MAX."""
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
        """The lines that `stored` was not called for."""
        return self._lines[self._stored :]

    def stored(self, count: int) -> None:
        """The first `count` of the lines that are not stored yet are stored now."""
        self._stored += count


def append(lines: list[LogLine], more: Sequence[LogLine]) -> None:
    """Add lines of another function of the same attempt; of all together at most LINES_MAX are kept."""
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


class JobPlace(NamedTuple):
    """Where a job stands among those that wait for their time."""

    due_at: Instant
    job_id: JobId


class LinePlace(NamedTuple):
    """Where a line stands among all of its tenant: in the order in which they were stored, which is later than written.

    A mutation's lines are stored when it is committed, an action's within a second.
    """

    stored_at: Instant
    job_id: JobId
    attempt: int
    number: int


class StoredLine(NamedTuple):
    """A line of a function's log, as a list of them shows it."""

    place: LinePlace
    name: str
    line: LogLine


class LineFilter(NamedTuple):
    """Which lines of a tenant: what is None does not narrow. `since` and `until` (exclusive) are times of storing."""

    tenant: TenantId = DEFAULT_TENANT
    name: str | None = None
    levels: tuple[str, ...] | None = None
    text: str | None = None
    """A part of the text; a and A are the same."""
    jobs: tuple[JobId, ...] | None = None
    since: Instant | None = None
    until: Instant | None = None


class JobCounts(NamedTuple):
    """How many jobs there are, by visible state; and how many of the failed ones were not run again."""

    pending: int = 0
    in_progress: int = 0
    success: int = 0
    failed: int = 0
    canceled: int = 0
    not_retried: int = 0


class Pulse(NamedTuple):
    """What is different when something of a tenant has changed since: a text for each kind of things."""

    jobs: str
    schedules: str
    logs: str


class JobGroup(NamedTuple):
    """Unfinished jobs of a function in a pool. `doing` is running (an action), claimed, due or later."""

    tenant: TenantId
    name: str
    pool: str
    doing: str
    jobs: int
    """How many there are."""
    oldest: Instant
    """The earliest time at which one of them is due."""


class FailedJob(NamedTuple):
    """A job that failed, and whether it was run again since."""

    tenant: TenantId
    name: str
    completed_at: Instant
    id: JobId
    is_retried: bool
