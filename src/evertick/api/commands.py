"""Schemas of the output of single commands. Views that several commands print are in other modules."""

from typing import Any, Self

from evertick.api.jobs import JobView
from evertick.api.schedules import ScheduleDescription, TimeView
from evertick.api.schema import Moment, Schema, named
from evertick.base.ids import JobId, ScheduleId


class CreatedSchedule(ScheduleDescription):
    """A schedule that was created. With `dry_run`, the schedule that would be created."""

    dry_run: bool

    @classmethod
    def of(cls, made: ScheduleDescription, *, dry_run: bool) -> Self:
        """The output for the schedule `made`."""
        return cls.model_construct(**dict(made), dry_run=dry_run)


class UpdatedSchedule(CreatedSchedule):
    """A schedule after a change. With `dry_run`, the change was not made.

    `changes` maps the name of each changed field to its two values, [before, after].
    """

    changes: dict[str, list[Any]]

    @classmethod
    def after(cls, made: ScheduleDescription, changes: dict[str, list[Any]], *, dry_run: bool) -> Self:
        """The output for the schedule `made` after `changes`. With `dry_run`, the changes were not made."""
        return cls.model_construct(**dict(made), changes=changes, dry_run=dry_run)


class PlannedTime(TimeView):
    """A time that a backfill would run. `already_ran` is True if a run was started for this time before."""

    already_ran: bool


class ScheduledCall(Schema):
    """A call that was scheduled as a job. `due_at` is None if the job does not exist any more."""

    job_id: JobId
    due_at: Moment | None


class MovedJob(Schema):
    """A job whose due time was changed. `due_at` is the new time."""

    job_id: JobId
    due_at: Moment

    @classmethod
    def of(cls, job: JobView) -> Self:
        """The output for a job whose due time was changed."""
        return cls(job_id=job.id, due_at=job.due_at)


class RetriedJob(Schema):
    """A job that was retried. `retried_as` is the id of the new job."""

    job_id: JobId
    retried_as: JobId


class CanceledJob(Schema):
    """A job that was canceled.

    If `still_runs` is True, the function of the job is still running. The job becomes canceled when the function ends.
    """

    job_id: JobId
    still_runs: bool


class ChangedCount(Schema):
    """The number of objects that a command with filters has changed."""

    count: int


class DeletedSchedule(Schema):
    """A schedule that was deleted."""

    id: ScheduleId


class SentEvent(Schema):
    """An event that was sent to a workflow run.

    `awaited` is True if the code of the run was waiting for the event. If it is False, the event is stored until the
    code waits for it.
    """

    run: str
    event: str
    awaited: bool


class RestartedRuns(Schema):
    """The result of restarting all workflow runs that match filters.

    `restarted` is how many runs were restarted. `left_out` is how many of the matching runs were not restarted.
    """

    restarted: int
    left_out: int


class FunctionCounts(Schema):
    """The number of jobs of a function in each state.

    `not_retried` is how many of the failed jobs were not run again.
    """

    function: str
    pending: int
    in_progress: int
    success: int
    failed: int
    canceled: int
    not_retried: int = 0


class BackupReport(Schema):
    """A backup of a database that was written to `file`. `bytes` is the size of the file."""

    database: str
    file: str
    bytes: int


class CopyReport(Schema):
    """A copy of the database `source` to `database`. `rows` is the number of rows by table, without empty tables."""

    source: str
    database: str
    rows: dict[str, int]


class MigrationReport(Schema):
    """A migration of a database. `steps` are the steps that were applied, in order; empty if none was necessary."""

    database: str
    steps: list[str]


class VersionReport(Schema):
    """The versions of Evertick, Python and the libraries, for bug reports.

    The version of a library that is missing is `not installed`. `schema` is the migration step to which this release
    migrates databases. `zone_data` is the source of the time zone data.
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
