"""Every error that Evertick raises itself, as one tree; `evertick.base.errors` draws it.

The branch says what the caller can do: `Misuse` (fix the call), `NotFound` (it does not exist), `Conflict` (read again,
then decide), `Unavailable` (wait, then try again). `code` is a name for programs: it never changes.

    try:
        app.scheduler.using(key="nightly", on_conflict="error").run_after(60, clean_up)
    except AlreadyExists:
        ...
"""

from evertick.base.errors import *

__all__ = [
    "AccessDenied", "AlreadyExists", "ArgumentsTooLarge", "Conflict", "CronNotFound", "DatabaseLocked",
    "DatabaseUnavailable", "DocumentNotFound", "EvertickError", "FunctionFailed", "FunctionNotFound",
    "GatewayNotFound", "GatewayUnreachable", "IdempotencyConflict", "IntervalTooShort", "InvalidArguments",
    "InvalidCron", "InvalidDatabaseUrl", "InvalidDelay", "InvalidScript", "InvalidSpec", "InvalidTenant",
    "InvalidText", "JobNotFound", "JobNotPending", "JobNotRetryable", "JournalTooLarge", "LimitExceeded", "Misuse",
    "NotDeterministic", "NotFound", "NotManaged", "NotUnique", "OutcomeUnknown", "QuotaExceeded", "RegistrationError",
    "ReplayMismatch", "RevisionConflict", "RunNotFound", "RunNotOpen", "SandboxUnavailable", "ScheduleNotFound",
    "SchemaMismatch", "ScriptInUse", "ScriptNotFound", "StepFailed", "StepOutcomeUnknown", "StepOutsideWorkflow",
    "StepStillRuns", "StorageFailed", "TooManyJobs", "TransactionEnded", "TransactionRefused", "Unavailable",
    "UnknownCommand",
    "UnknownSecret", "ValueTooLarge", "VersionConflict", "WeakIsolation", "WorkflowFailed", "WorkflowInactive",
    "WorkflowStuck", "WriteConflict", ]  # fmt: skip
