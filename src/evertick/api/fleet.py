"""Schemas of a fleet: what keeps the workers of a database from doing what is scheduled."""

from enum import StrEnum

from pydantic import computed_field

from evertick.api.schema import Moment, Schema
from evertick.base.ids import TenantId


class FleetCheck(StrEnum):
    """What is looked at."""

    WRITES = "writes"
    """Whether the program that looks can write the database."""
    CLOCK = "clock"
    """The clock of the program that looks, beside the database's."""
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

    `clock_ahead_ms` is by how much the database's clock is ahead of that of the program that looked. `complete` is
    False if there were more jobs, schedules or tenants than are looked at.
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
