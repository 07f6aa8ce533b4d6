"""Every error that Evertick raises itself, as one tree.

    EvertickError
    ├── Misuse            fix the call: it can never work as it stands
    │   ├── InvalidSpec          a rule of times that does not parse, or can never fire
    │   ├── InvalidArguments     arguments that the function's signature does not take
    │   ├── InvalidDelay         a delay or moment that is negative, naive, not finite or too far away
    │   ├── InvalidTenant        a name that cannot be a tenant's
    │   ├── InvalidText          a text that no database can hold; a ValueError too
    │   ├── RegistrationError    a function, table or cron that cannot be registered
    │   ├── TransactionRefused   the database will never commit what the function did
    │   ├── TransactionEnded     a function has ended the transaction that it shares with others
    │   ├── InvalidScript        a script that has a syntax error, is too large, or cannot be called so
    │   ├── WeakIsolation        scripts of customers on a machine that cannot wall them in
    │   ├── InvalidCron          a cron that its gateway cannot run as it stands
    │   │   └── IntervalTooShort
    │   ├── UnknownCommand       a command that the gateway's own configuration does not list
    │   ├── StepOutsideWorkflow  a step that was called elsewhere than in the code of its run
    │   ├── NotDeterministic     a workflow uses what cannot be the same at its replay
    │   ├── ReplayMismatch       a workflow's code does not fit the journal of its run
    │   ├── WorkflowStuck        a workflow that no event can wake, or that never waits
    │   ├── LimitExceeded        a named limit
    │   │   ├── TooManyJobs          one call scheduled more jobs than are allowed
    │   │   ├── ArgumentsTooLarge    of one job, or of all jobs of one call
    │   │   ├── ValueTooLarge        a document, a result or an index key
    │   │   ├── JournalTooLarge      what one workflow run may do before it continues as new
    │   │   └── QuotaExceeded        what the tenant may have at a time
    │   └── InvalidDatabaseUrl
    ├── NotFound          what the call names does not exist (any more)
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
    │   ├── RunNotOpen           the run of a workflow has ended, so no event reaches it
    │   ├── StepStillRuns        a call of the run has no end yet, so it cannot be restarted behind it
    │   ├── ScriptInUse          schedules run the script, so it cannot be deleted
    │   ├── WorkflowInactive     the workflow is paused, deprecated or deleted, so no run of it starts
    │   ├── RevisionConflict     the cron of a gateway changed since it was read
    │   └── VersionConflict
    ├── AccessDenied      of a server: the token is not valid, or may not do that
    │   ├── UnknownSecret        of a gateway: it has to register again
    │   └── NotManaged           the cron belongs to the gateway or to another of its users: it is read-only here
    ├── FunctionFailed    of a server: the function that was called has raised
    ├── WorkflowFailed    what was waited for: the run has failed or was canceled
    ├── StepFailed        inside a workflow: a step has failed; catch it, or let the workflow fail
    │   └── StepOutcomeUnknown   its worker was lost: it may have happened or not; an OutcomeUnknown too
    └── Unavailable       wait, then try again: nothing is wrong with the call
        ├── DatabaseUnavailable
        ├── StorageFailed        the disk is full, or what lies on it cannot be read or written
        ├── SandboxUnavailable   scripts cannot run: an engine is not installed, or its processes do not start
        ├── GatewayUnreachable   the gateway does not reply, so nothing was done and nothing is queued
        ├── OutcomeUnknown       the connection broke during COMMIT
        ├── DatabaseLocked       another engine holds the file
        └── SchemaMismatch       the database is older or newer than this code

The branch says what the caller can do. `code` never changes: clients match on it.
How a *user's* function ended is not an error of this tree but a value: see `evertick.base.outcomes`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar


class EvertickError(Exception):
    """The root: catch it to catch everything Evertick raises on purpose."""

    code: ClassVar[str] = "evertick_error"


class Misuse(EvertickError):
    """The call can never work as it stands; the message says what to change."""

    code = "misuse"


class InvalidSpec(Misuse):
    """A rule of times that does not parse or that can never fire, or an id that no schedule can have."""

    code = "invalid_spec"


class InvalidArguments(Misuse):
    """Arguments that the function's signature does not take."""

    code = "invalid_arguments"


class InvalidDelay(Misuse):
    """A delay or moment that is negative, not finite, without a time zone, or beyond the horizon of five years."""

    code = "invalid_delay"


class InvalidTenant(Misuse):
    """A name that cannot be a tenant's."""

    code = "invalid_tenant"


class InvalidText(Misuse, ValueError):
    """A text with half of a character (a lone surrogate) or, on PostgreSQL, with NUL: no database can hold it."""

    code = "invalid_text"


class RegistrationError(Misuse):
    """A function, table, index or cron that cannot be registered, and why."""

    code = "registration_error"


class InvalidScript(Misuse):
    """A script that has a syntax error, is too large or has a name that no script can have. Lines begin at 1."""

    code = "invalid_script"

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class InvalidCron(Misuse):
    """A cron that its gateway cannot run as it stands, and why."""

    code = "invalid_cron"


class IntervalTooShort(InvalidCron):
    """A cron would run more often than its gateway allows."""

    code = "interval_too_short"


class UnknownCommand(Misuse):
    """A command or builtin, or an argument of one, that the gateway's own configuration does not list."""

    code = "unknown_command"


class WeakIsolation(Misuse):
    """This machine cannot wall in the scripts of customers, and the app does not allow to run them without walls."""

    code = "weak_isolation"


class StepOutsideWorkflow(Misuse):
    """A step was called elsewhere than in the code of its own run, for example in a thread or after the run's end."""

    code = "step_outside_workflow"


class NotDeterministic(Misuse):
    """The code of a workflow uses what could not be the same when the run is replayed; the message names the cure."""

    code = "not_deterministic"


class ReplayMismatch(Misuse):
    """The code of a workflow does not make the steps that the journal of the run has; nothing was written.

    The code was changed while the run was under way, or it is not deterministic. `position` is the journal's row.
    """

    code = "replay_mismatch"

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class WorkflowStuck(Misuse):
    """The code of a workflow waits for something that no step, timer or event can bring, or it never waits."""

    code = "workflow_stuck"


class LimitExceeded(Misuse):
    """A limit with a name was reached; the message holds the figure and the limit."""

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
    trying again would meet the same.
    """

    code = "transaction_refused"


class TransactionEnded(Misuse):
    """A function has ended the transaction that it shares with others; what it had committed by then stays written."""

    code = "transaction_ended"
    job_id = ""  # whose function it was: it is not run again


class InvalidDatabaseUrl(Misuse):
    """A database address that is neither `sqlite:///FILE` nor `postgresql://...`."""

    code = "invalid_database_url"


class NotFound(EvertickError):
    """What the call names does not exist, or does not exist any more."""

    code = "not_found"
    wanted = ""  # the id or key that was looked for, where it is known


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
    """Another caller was first: read again, then decide."""

    code = "conflict"


class WriteConflict(Conflict):
    """The transaction could not be serialized with another one; running it again is safe."""

    code = "write_conflict"
    has_waited = False  # for a lock, as long as transactions wait for one


class IdempotencyConflict(Conflict):
    """The idempotency key was used before, with another function or with other arguments."""

    code = "idempotency_conflict"


class NotUnique(Conflict):
    """`unique()` found more than one document."""

    code = "not_unique"


class AlreadyExists(Conflict):
    """Something of that id or key exists already."""

    code = "already_exists"


class JobNotPending(Conflict):
    """The job runs or has ended, so its time cannot be changed."""

    code = "job_not_pending"


class JobNotRetryable(Conflict):
    """The job has not failed, or was retried already, so there is nothing to try again."""

    code = "job_not_retryable"


class RunNotOpen(Conflict):
    """The run of a workflow has ended, so it can be sent nothing more."""

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
            f"workflow {name} is {status}, so no run of it starts; let it with `evertick workflow type resume {name}`"
        )
        self.workflow = name
        self.status = status


class StepStillRuns(Conflict):
    """A call that was begun before the step to restart from has no end yet."""

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
    """In a few words why the database cannot be written, if it can be reached."""


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
    """The gateway, or what is behind it, does not reply. What was asked for was not queued."""

    code = "gateway_unreachable"


class OutcomeUnknown(Unavailable):
    """The connection broke during COMMIT: the transaction was applied or it was not.

    Nothing may be repeated blindly. A mutation called with an idempotency key can be called again with that key.
    """

    code = "outcome_unknown"


class DatabaseLocked(Unavailable):
    """Another engine holds this SQLite file, or a transaction a table that is to be moved."""

    code = "database_locked"


class SchemaMismatch(Unavailable):
    """The database's schema, or `of_one_row` what one of its rows holds, is older or newer than this code."""

    code = "schema_mismatch"
    of_one_row = False


class AccessDenied(EvertickError):
    """A server refuses a request: the token is not valid, or it may not do that, or not there."""

    code = "not_allowed"


class UnknownSecret(AccessDenied):
    """No gateway has this secret, or no join token is this one: it was used, replaced, removed, or has expired."""

    code = "unknown_secret"


class NotManaged(AccessDenied):
    """The cron belongs to the gateway itself or to another of its users, so it is read-only here."""

    code = "not_managed"


class FunctionFailed(EvertickError):
    """A function that was called over HTTP has raised: the `type`, `message` and `data` (or None) of its error."""

    code = "function_failed"

    def __init__(self, type: str, message: str, data: Any = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.data = data


class WorkflowFailed(EvertickError):
    """A run whose result was asked for has failed. `type` and `message` are its error's; "Canceled" if it was."""

    code = "workflow_failed"

    def __init__(self, run_id: str, workflow: str, type: str, message: str) -> None:
        super().__init__(f"run {run_id} of {workflow}: {type}: {message}")
        self.run_id = run_id
        self.workflow = workflow
        self.type = type
        self.message = message


class StepFailed(EvertickError):
    """A step of a workflow has failed: `step` is its name, the others are of the error that its function raised."""

    code = "step_failed"

    def __init__(self, step: str, type: str, message: str, data: Any = None) -> None:
        super().__init__(f"{step}: {type}: {message}")
        self.step = step
        self.type = type
        self.message = message
        self.data = data


class StepOutcomeUnknown(StepFailed, OutcomeUnknown):
    """The worker was lost while the step ran, so it may have happened or not. It is not tried again by itself."""

    code = "step_outcome_unknown"
