"""Schemas of deploys: how what is scheduled fits the code."""

from enum import StrEnum

from pydantic import computed_field

from evertick.api.schema import Moment, Schema
from evertick.api.workflows import WorkflowTypeView
from evertick.base.ids import TenantId


class Problem(StrEnum):
    """Why something that is scheduled will not run with this code."""

    REMOVED = "removed"
    """The code has no function of that name, and no alias."""
    NOT_CALLABLE = "not_callable"
    """The function has become a query, which is never a job."""
    ARGUMENTS = "arguments"
    """The arguments do not fit the function's signature."""
    UNREADABLE = "unreadable"
    """A newer release has written it, or it is damaged."""
    JOURNAL = "journal"
    """The code of a workflow makes other calls than its runs have made."""
    INVALID = "invalid"
    """A cron that the code declares cannot work, so no worker would start."""


class Finding(Schema):
    """A tenant's jobs or schedules of one function that have the same problem.

    `what` is `job`, `schedule` or `cron`; `ids` are the first ten of `count`. `fix` says what to do.
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
    """How the pending jobs, the schedules and the crons of some tenants fit the code of an app.

    The numbers say how many were checked; `complete` is False if there were more jobs or runs than that.
    """

    app: str
    tenants: tuple[TenantId, ...]
    jobs: int
    schedules: int
    crons: int
    complete: bool
    findings: tuple[Finding, ...]
    inactive: tuple[WorkflowTypeView, ...]
    """Workflows of the code that are paused, deprecated or deleted: no run of them starts. That is no finding."""
    crons_added: tuple[str, ...] = ()
    crons_deleted: tuple[str, ...] = ()
    """Crons that the next start of a worker adds and deletes. That is no finding, unless times are lost with it."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def fits(self) -> bool:
        """Whether there is nothing to complain of."""
        return not self.findings


# -- Schemas of a fleet: what keeps the workers of a database from doing what is scheduled.


class FleetCheck(StrEnum):
    """What is checked."""

    WRITES = "writes"
    """Whether the program that checks can write the database."""
    CLOCK = "clock"
    """The difference between the clocks of the program that checks and of the database."""
    ZONE_DATA = "zone_data"
    """Whether all live workers have the same release of the time zone database."""
    WORKERS = "workers"
    """Whether workers are alive, and whether the rows of dead ones are cleared away."""
    LAG = "lag"
    """How long due jobs wait."""
    POOLS = "pools"
    """Whether each pool with due jobs has a live worker."""
    FUNCTIONS = "functions"
    """Whether each function that is due or scheduled is served by a live worker."""
    COPIES = "copies"
    """Whether commits wait for a standby, if the address names several servers."""
    ROWS = "rows"
    """Whether this release can read the rows of active schedules and of workers."""
    RUNS = "runs"
    """Whether runs of workflows can go on."""
    MISSED = "missed"
    """Whether times of schedules were found missed in the last 24 hours, and have not been run since."""
    TIMES = "times"
    """Whether active schedules have a time to come."""


class FleetFinding(Schema):
    """Something that keeps jobs or schedules from running. `name` is what it is about; `fix` says what to do."""

    check: FleetCheck
    tenant: TenantId | None
    name: str
    detail: str
    fix: str


class FleetReport(Schema):
    """What keeps the workers of a database from doing what some tenants have scheduled.

    `clock_ahead_ms` is by how much the database's clock is ahead of that of the program that checked. `complete` is
    False if there were more jobs, schedules or tenants than are checked.
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
        """Whether there is nothing to complain of."""
        return not self.findings
