"""Every error that Evertick raises itself, as one tree.

    EvertickError
    ├── Misuse            fix the call: it cannot succeed unchanged
    │   ├── InvalidSpec          a schedule rule that does not parse, or can never fire
    │   ├── InvalidArguments     arguments that the function's signature does not take
    │   ├── InvalidDelay         a delay or time that is negative, naive, not finite or too far away
    │   ├── InvalidTenant        not a valid name of a tenant
    │   ├── InvalidText          a text that no database can store; a ValueError too
    │   ├── RegistrationError    a function, table or cron that cannot be registered
    │   ├── TransactionRefused   the database will never commit what the function did
    │   ├── TransactionEnded     a function has ended the transaction that it shares with others
    │   ├── InvalidScript        a script with a syntax error, too large, or with an invalid name
    │   ├── WeakIsolation        scripts of customers on a machine that cannot isolate them
    │   ├── InvalidCron          a cron that its gateway cannot run
    │   │   └── IntervalTooShort
    │   ├── UnknownCommand       a command that the gateway's own configuration does not list
    │   ├── StepOutsideWorkflow  a step that was called outside of its run's code
    │   ├── NotDeterministic     a workflow uses something that differs at replay
    │   ├── ReplayMismatch       a workflow's code does not fit the journal of its run
    │   ├── WorkflowStuck        a workflow that no event can wake, or that never waits
    │   ├── LimitExceeded        a named limit
    │   │   ├── TooManyJobs          one call scheduled more jobs than are allowed
    │   │   ├── ArgumentsTooLarge    of one job, or of all jobs of one call
    │   │   ├── ValueTooLarge        a document, a result or an index key
    │   │   ├── JournalTooLarge      a run of a workflow has to continue as new
    │   │   └── QuotaExceeded        the tenant's limits of jobs, arguments and schedules
    │   └── InvalidDatabaseUrl
    ├── NotFound          the thing does not exist (any more)
    │   ├── FunctionNotFound
    │   ├── JobNotFound
    │   ├── DocumentNotFound
    │   ├── ScheduleNotFound
    │   ├── ScriptNotFound       a script, or a version of one
    │   ├── GatewayNotFound
    │   ├── CronNotFound         of a gateway
    │   └── RunNotFound          of a gateway
    ├── Conflict          another caller was first: read again, then decide
    │   ├── WriteConflict        a transaction that could not be serialized
    │   ├── IdempotencyConflict  the key was used with another function or other arguments
    │   ├── NotUnique            `unique()` found more than one document
    │   ├── AlreadyExists
    │   ├── JobNotPending        the job runs or has ended, so its time cannot be changed
    │   ├── JobNotRetryable      the job has not failed, or was retried already
    │   ├── RunNotOpen           the run of a workflow has ended, so it takes no event
    │   ├── StepStillRuns        a call before the restart point has not ended yet
    │   ├── ScriptInUse          schedules run the script, so it cannot be deleted
    │   ├── WorkflowInactive     the workflow is paused, deprecated or deleted, so no run of it starts
    │   ├── RevisionConflict     the cron of a gateway changed since it was read
    │   └── VersionConflict
    ├── AccessDenied      of a server: the token is invalid, or lacks the permission
    │   ├── UnknownSecret        of a gateway: it has to register again
    │   └── NotManaged           the cron belongs to the gateway or another of its users: read-only
    ├── FunctionFailed    of a server: the called function has raised an error
    ├── WorkflowFailed    the run whose result was awaited failed or was canceled
    ├── StepFailed        inside a workflow: a step has failed; catch it, or let the workflow fail
    │   └── StepOutcomeUnknown   its worker was lost: it may have happened or not; an OutcomeUnknown too
    └── Unavailable       wait, then try again: nothing is wrong with the call
        ├── DatabaseUnavailable
        ├── StorageFailed        the disk is full, or the file cannot be read or written
        ├── SandboxUnavailable   scripts cannot run: an engine is not installed, or its processes do not start
        ├── GatewayUnreachable   the gateway does not reply, so nothing was done and nothing is queued
        ├── OutcomeUnknown       the connection broke during COMMIT
        ├── DatabaseLocked       another engine has locked the file
        └── SchemaMismatch       the database is older or newer than this code

The branch says what the caller can do. `code` never changes: clients match on it.
The outcome of a *user's* function is not an error of this tree but a value: see `evertick.base.outcomes`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar


class EvertickError(Exception):
    """The root: catch it to catch everything Evertick raises on purpose."""

    code: ClassVar[str] = "evertick_error"


class Misuse(EvertickError):
    """The call cannot succeed unchanged; the message says what to change."""

    code = "misuse"


class InvalidSpec(Misuse):
    """A schedule rule that does not parse or can never fire, or an invalid id of a schedule."""

    code = "invalid_spec"


class InvalidArguments(Misuse):
    """Arguments that the function's signature does not take."""

    code = "invalid_arguments"


class InvalidDelay(Misuse):
    """A delay or time that is negative, not finite, without a time zone, or beyond the horizon of five years."""

    code = "invalid_delay"


class InvalidTenant(Misuse):
    """Not a valid name of a tenant."""

    code = "invalid_tenant"


class InvalidText(Misuse, ValueError):
    """A text that the database cannot store: it has a lone surrogate (\\ud83d) or, on PostgreSQL, NUL."""

    code = "invalid_text"


class RegistrationError(Misuse):
    """A function, table, index or cron that cannot be registered, and why."""

    code = "registration_error"


class InvalidScript(Misuse):
    """A script that has a syntax error, is too large or has an invalid name. Lines count from 1."""

    code = "invalid_script"

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class InvalidCron(Misuse):
    """A cron that its gateway cannot run, and why."""

    code = "invalid_cron"


class IntervalTooShort(InvalidCron):
    """A cron would run more often than its gateway allows."""

    code = "interval_too_short"


class UnknownCommand(Misuse):
    """A command or builtin, or an argument of one, that the gateway's own configuration does not list."""

    code = "unknown_command"


class WeakIsolation(Misuse):
    """This machine cannot isolate the scripts of customers, and the app does not allow that."""

    code = "weak_isolation"


class StepOutsideWorkflow(Misuse):
    """A step was called outside of its own run's code, for example in a thread or after the run's end."""

    code = "step_outside_workflow"


class NotDeterministic(Misuse):
    """The code of a workflow uses something that could differ at a replay; the message says what to use instead."""

    code = "not_deterministic"


class ReplayMismatch(Misuse):
    """The code of a workflow does not call the steps that the run's journal records; nothing was written.

    The code was changed while the run was under way, or it is not deterministic. `position` is the journal's row.
    """

    code = "replay_mismatch"

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class WorkflowStuck(Misuse):
    """The code of a workflow waits for something that no step, timer or event can complete, or it never waits."""

    code = "workflow_stuck"


class LimitExceeded(Misuse):
    """A named limit was reached; the message has the value and the limit."""

    code = "limit_exceeded"


class TooManyJobs(LimitExceeded):
    """One function call scheduled more jobs than are allowed."""

    code = "too_many_jobs"


class ArgumentsTooLarge(LimitExceeded):
    """Arguments of one job, or of all jobs of one function call, are larger than allowed."""

    code = "arguments_too_large"


class ValueTooLarge(LimitExceeded):
    """A document, a result or an index key is larger than allowed."""

    code = "value_too_large"


class JournalTooLarge(LimitExceeded):
    """The journal of a workflow's run has become too long: continue as new, which begins with an empty one."""

    code = "journal_too_large"


class QuotaExceeded(LimitExceeded):
    """The tenant has as many jobs, arguments or schedules as its limits allow: wait, remove some, or raise them."""

    code = "quota_exceeded"


class TransactionRefused(Misuse):
    """The database refuses to commit what a function did in its own tables.

    For example: a foreign key that is checked at the commit (`deferrable initially deferred`). Nothing was written;
    a retry would fail in the same way.
    """

    code = "transaction_refused"


class TransactionEnded(Misuse):
    """A function has ended the transaction that it shares with others; what it committed before stays written."""

    code = "transaction_ended"
    job_id = ""  # the job that called the function; it is not run again


class InvalidDatabaseUrl(Misuse):
    """A database address that is neither `sqlite:///FILE` nor `postgresql://...`."""

    code = "invalid_database_url"


class NotFound(EvertickError):
    """The thing does not exist, or does not exist any more."""

    code = "not_found"
    wanted = ""  # the id or key that was not found, if it is known


class FunctionNotFound(NotFound):
    """No function of that name is registered."""

    code = "function_not_found"


class JobNotFound(NotFound):
    """No job of that id: it never existed, or its retention is over."""

    code = "job_not_found"


class DocumentNotFound(NotFound):
    """The document to be changed does not exist."""

    code = "document_not_found"


class ScheduleNotFound(NotFound):
    """No schedule of that id."""

    code = "schedule_not_found"


class ScriptNotFound(NotFound):
    """The tenant has no script of that name, or it has no such version."""

    code = "script_not_found"


class GatewayNotFound(NotFound):
    """The tenant has no gateway of that name."""

    code = "gateway_not_found"


class CronNotFound(NotFound):
    """The gateway has no cron of that id."""

    code = "cron_not_found"


class RunNotFound(NotFound):
    """The gateway has no run of that id: it never existed, or its retention is over."""

    code = "run_not_found"


class Conflict(EvertickError):
    """Another caller made a change first: read again, then decide."""

    code = "conflict"


class WriteConflict(Conflict):
    """The transaction could not be serialized with another one; running it again is safe."""

    code = "write_conflict"
    has_waited = False  # whether it has waited for a lock for the whole lock timeout


class IdempotencyConflict(Conflict):
    """The idempotency key was used before, with another function or with other arguments."""

    code = "idempotency_conflict"


class NotUnique(Conflict):
    """`unique()` found more than one document."""

    code = "not_unique"


class AlreadyExists(Conflict):
    """Something with that id or key exists already."""

    code = "already_exists"


class JobNotPending(Conflict):
    """The job runs or has ended, so its time cannot be changed."""

    code = "job_not_pending"


class JobNotRetryable(Conflict):
    """The job has not failed, or was retried already."""

    code = "job_not_retryable"


class RunNotOpen(Conflict):
    """The run of a workflow has ended, so nothing can be sent to it."""

    code = "run_not_open"

    def __init__(self, run_id: str, state: str) -> None:
        super().__init__(f"run {run_id} has ended ({state}); nothing was sent")
        self.run_id = run_id
        self.state = state


class ScriptInUse(Conflict):
    """Schedules or unfinished jobs run the script, so it cannot be deleted; `schedules` and `jobs` are the first."""

    code = "script_in_use"

    def __init__(self, name: str, schedules: Sequence[str], jobs: Sequence[str] = ()) -> None:
        super().__init__(
            f"the script {name!r} is used by the schedules {', '.join(schedules)}; delete or change them first"
            if schedules
            else f"the script {name!r} has runs that have not ended: {', '.join(jobs)}; cancel these jobs first"
        )
        self.schedules, self.jobs = schedules, jobs


class WorkflowInactive(Conflict):
    """The workflow is paused, deprecated or deleted, so no run of it starts."""

    code = "workflow_inactive"

    def __init__(self, name: str, status: str) -> None:
        super().__init__(
            f"workflow {name} is {status}, so no run of it starts; allow it with `evertick workflow type resume {name}`"
        )
        self.workflow = name
        self.status = status


class StepStillRuns(Conflict):
    """A run cannot restart from this step while a call that began before the step has not ended."""

    code = "step_still_runs"

    def __init__(self, run_id: str, name: str) -> None:
        super().__init__(f"run {run_id} still waits for {name!r}; wait for its end, or restart from an earlier step")
        self.run_id = run_id


class RevisionConflict(Conflict):
    """The cron of a gateway changed since it was read; nothing was written."""

    code = "revision_conflict"


class VersionConflict(Conflict):
    """The thing changed since it was read; nothing was written."""

    code = "version_conflict"


class Unavailable(EvertickError):
    """Wait, then try again: nothing is wrong with the call itself."""

    code = "unavailable"
    reason: str | None = None
    """A short reason why the database cannot be written, if it can be reached."""


class DatabaseUnavailable(Unavailable):
    """The database does not respond."""

    code = "database_unavailable"


class StorageFailed(Unavailable):
    """The database's disk is full, or its file cannot be read or written. Nothing was written; nothing is lost."""

    code = "storage_failed"


class SandboxUnavailable(Unavailable):
    """Scripts cannot run here: an engine is not installed, the sandbox's processes do not start, or it was closed."""

    code = "sandbox_unavailable"


class GatewayUnreachable(Unavailable):
    """The gateway, or the system behind it, does not reply. The request was not queued."""

    code = "gateway_unreachable"


class OutcomeUnknown(Unavailable):
    """The connection broke during COMMIT: the transaction may or may not have been applied.

    Do not repeat the call blindly. A mutation called with an idempotency key can be called again with that key.
    """

    code = "outcome_unknown"


class DatabaseLocked(Unavailable):
    """Another engine has locked this SQLite file, or a transaction has locked a table that is to be migrated."""

    code = "database_locked"


class SchemaMismatch(Unavailable):
    """The database's schema, or with `of_one_row` a value in one row, is older or newer than this code."""

    code = "schema_mismatch"
    of_one_row = False


class AccessDenied(EvertickError):
    """A server refuses a request: the token is not valid, or lacks the permission for this action or tenant."""

    code = "not_allowed"


class UnknownSecret(AccessDenied):
    """No gateway has this secret, or the join token is unknown: it was used, replaced, removed, or has expired."""

    code = "unknown_secret"


class NotManaged(AccessDenied):
    """The cron belongs to the gateway itself or to another of its users, so it is read-only here."""

    code = "not_managed"


class FunctionFailed(EvertickError):
    """A function that was called over HTTP has raised an error with this `type`, `message` and `data` (or None)."""

    code = "function_failed"

    def __init__(self, type: str, message: str, data: Any = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.data = data


class WorkflowFailed(EvertickError):
    """A run whose result was requested has failed with this error; `type` is "Canceled" if it was canceled."""

    code = "workflow_failed"

    def __init__(self, run_id: str, workflow: str, type: str, message: str) -> None:
        super().__init__(f"run {run_id} of {workflow}: {type}: {message}")
        self.run_id = run_id
        self.workflow = workflow
        self.type = type
        self.message = message


class StepFailed(EvertickError):
    """A step of a workflow has failed: `step` is its name, the other fields are those of its function's error."""

    code = "step_failed"

    def __init__(self, step: str, type: str, message: str, data: Any = None) -> None:
        super().__init__(f"{step}: {type}: {message}")
        self.step = step
        self.type = type
        self.message = message
        self.data = data


class StepOutcomeUnknown(StepFailed, OutcomeUnknown):
    """The worker was lost while the step ran, so the step may or may not have run. It is not retried automatically."""

    code = "step_outcome_unknown"
