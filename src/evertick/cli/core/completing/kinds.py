"""What there is to complete by reading it."""

from enum import StrEnum


class Kind(StrEnum):
    """The kind of the names to complete."""

    JOB = "job"
    RUN = "run"
    WORKFLOW = "workflow"
    FUNCTION = "function"
    SCHEDULE = "schedule"
    CRON = "cron"
    BACKFILL = "backfill"
    POOL = "pool"
    TENANT = "tenant"
    SCRIPT = "script"
