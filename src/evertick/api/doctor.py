"""Schemas of checks: whether jobs and schedules fit the code, and whether the workers of a database can run them."""

from enum import StrEnum

from pydantic import computed_field

from evertick.api.schema import Moment, Schema
from evertick.api.workflows import WorkflowTypeView
from evertick.base.ids import TenantId


class Problem(StrEnum):
    """Why a job, a schedule or a cron cannot run with this code."""

    REMOVED = "removed"
    """The code has no function and no alias with this name."""
    NOT_CALLABLE = "not_callable"
    """The function is a query now, and a query cannot run as a job."""
    ARGUMENTS = "arguments"
    """The arguments do not fit the function's signature."""
    UNREADABLE = "unreadable"
    """The row is damaged, or a newer release has written it."""
    JOURNAL = "journal"
    """The code of a workflow makes other calls than those in the journal of a run."""
    INVALID = "invalid"
    """The declaration of a cron in the code is invalid, so no worker would start."""


class Finding(Schema):
    """The jobs, schedules or crons of one function of a tenant that have the same problem.

    `what` is `job`, `schedule` or `cron`. `count` is how many have the problem. `ids` are the first ten of them.
    `detail` describes the problem. `fix` says what to do.
    """

    what: str
    tenant: TenantId
    function: str
    problem: Problem
    detail: str
    count: int
    ids: tuple[str, ...]
    fix: str


class DoctorReport(Schema):
    """Whether the pending jobs, the schedules and the crons of some tenants can run with the code of an app.

    `jobs`, `schedules` and `crons` are how many were checked. `complete` is False if there were more jobs or runs than
    are checked.
    """

    app: str
    tenants: tuple[TenantId, ...]
    jobs: int
    schedules: int
    crons: int
    complete: bool
    findings: tuple[Finding, ...]
    inactive: tuple[WorkflowTypeView, ...]
    """The workflows of the code that are paused, deprecated or deleted. No run of them starts. They are not findings.
    """
    crons_added: tuple[str, ...] = ()
    crons_deleted: tuple[str, ...] = ()
    """`crons_added` and `crons_deleted` are the crons that the next start of a worker adds and deletes.

    They are findings only if times are lost.
    """

    @computed_field  # type: ignore[prop-decorator]
    @property
    def fits(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


# -- Schemas of a fleet: what keeps the workers of a database from doing what is scheduled.


class FleetCheck(StrEnum):
    """A check of a fleet: of the database and all its workers."""

    WRITES = "writes"
    """Whether the database accepts writes of the program that runs the check."""
    CLOCK = "clock"
    """The difference between the clock of the database and the clock of the machine that runs the check."""
    ZONE_DATA = "zone_data"
    """Whether all live workers use the same release of the time zone database."""
    WORKERS = "workers"
    """Whether a worker is alive, and whether the rows of dead workers are deleted."""
    LAG = "lag"
    """How long due jobs wait."""
    POOLS = "pools"
    """Whether each pool that has due jobs is served by a live worker."""
    FUNCTIONS = "functions"
    """Whether each function that is due or scheduled is served by a live worker."""
    COPIES = "copies"
    """Whether commits wait for a standby. It is checked only if the database URL has several servers."""
    ROWS = "rows"
    """Whether this release can read the rows of active schedules and of workers."""
    RUNS = "runs"
    """Whether workflow runs can continue."""
    MISSED = "missed"
    """Whether missed times were found in the last 24 hours that no trigger or backfill has run since."""
    TIMES = "times"
    """Whether each active schedule has a next time."""


class FleetFinding(Schema):
    """A reason why jobs or schedules do not run.

    `tenant` is None if the finding is not about one tenant. `name` is the object that has the problem, such as a
    worker, a pool, a function or a schedule. `detail` describes the problem. `fix` says what to do.
    """

    check: FleetCheck
    tenant: TenantId | None
    name: str
    detail: str
    fix: str


class FleetReport(Schema):
    """The reasons why the workers of a database do not run the scheduled work of some tenants.

    `workers` is the number of live workers. `clock_ahead_ms` is how far the clock of the database is ahead of the clock
    of the machine that ran the check, in milliseconds. `complete` is False if there were more jobs, schedules or
    tenants than are checked.
    """

    at: Moment
    tenants: tuple[TenantId, ...]
    workers: int
    clock_ahead_ms: int
    complete: bool
    findings: tuple[FleetFinding, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def well(self) -> bool:
        """Whether there are no findings."""
        return not self.findings
