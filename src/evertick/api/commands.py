"""Schemas that single commands of the command line write; the views that several share are in other modules."""

from typing import Any, Self

from evertick.api.jobs import JobView
from evertick.api.schedules import ScheduleDescription, TimeView
from evertick.api.schema import Moment, Schema, named
from evertick.base.ids import JobId, ScheduleId


class CreatedSchedule(ScheduleDescription):
    """A schedule that was made, or with `dry_run` would be."""

    dry_run: bool

    @classmethod
    def of(cls, made: ScheduleDescription, *, dry_run: bool) -> Self:
        """The schedule `made`."""
        return cls.model_construct(**dict(made), dry_run=dry_run)


class UpdatedSchedule(CreatedSchedule):
    """A schedule after a change. `changes` are by name, each [before, after]."""

    changes: dict[str, list[Any]]

    @classmethod
    def after(cls, made: ScheduleDescription, changes: dict[str, list[Any]], *, dry_run: bool) -> Self:
        """The schedule `made`, whose `changes` were made, or with `dry_run` would be."""
        return cls.model_construct(**dict(made), changes=changes, dry_run=dry_run)


class PlannedTime(TimeView):
    """A time that a backfill would run, and whether it ran before."""

    already_ran: bool


class ScheduledCall(Schema):
    """A call that was scheduled. `due_at` is None if the job is gone already."""

    job_id: JobId
    due_at: Moment | None


class MovedJob(Schema):
    """A job that is due at another time now."""

    job_id: JobId
    due_at: Moment

    @classmethod
    def of(cls, job: JobView) -> Self:
        """The view of a job that was moved."""
        return cls(job_id=job.id, due_at=job.due_at)


class RetriedJob(Schema):
    """A job that runs again, and the new job as which it does."""

    job_id: JobId
    retried_as: JobId


class CanceledJob(Schema):
    """A job that was canceled; one that `still_runs` ends as canceled when its function has ended."""

    job_id: JobId
    still_runs: bool


class ChangedCount(Schema):
    """How many were changed of those that filters have chosen."""

    count: int


class DeletedSchedule(Schema):
    """A schedule that was deleted."""

    id: ScheduleId


class SentEvent(Schema):
    """An event that was sent to a run; `awaited` if its code waited for it then, else it is kept."""

    run: str
    event: str
    awaited: bool


class RestartedRuns(Schema):
    """How many runs were restarted of those that filters have chosen, and how many were left out."""

    restarted: int
    left_out: int


class FunctionCounts(Schema):
    """How many jobs of a function there are, by state; `not_retried` of the failed ones were not run again."""

    function: str
    pending: int
    in_progress: int
    success: int
    failed: int
    canceled: int
    not_retried: int = 0


class BackupReport(Schema):
    """A copy of a database, and its size."""

    database: str
    file: str
    bytes: int


class CopyReport(Schema):
    """A copy of a database in another one, and how many rows each table has; those without any are left out."""

    source: str
    database: str
    rows: dict[str, int]


class MigrationReport(Schema):
    """The steps that a migration took."""

    database: str
    steps: list[str]


class VersionReport(Schema):
    """The versions of everything that matters for a question; `not installed` for a library that is not.

    `schema` is the step of migration that this release brings databases to, `zone_data` where time zones come from.
    """

    evertick: str
    schema_step: str = named("schema_step", "schema")
    python: str
    platform: str
    sqlite: str
    pydantic: str
    psycopg: str
    sqlalchemy: str
    tzdata: str
    zone_data: str
