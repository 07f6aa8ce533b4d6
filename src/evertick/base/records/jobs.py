"""Records of jobs and workers, as immutable data."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from evertick.base.errors import Misuse, SchemaMismatch
from evertick.base.ids import DEFAULT_POOL, DEFAULT_TENANT, JobId, QueueId, ScheduleId, TenantId, WorkerId, app_of
from evertick.base.instants import DAY_MS, HORIZON_MS, Instant
from evertick.base.options import Rule, check_options, number, one_of_type, whole
from evertick.base.records.history import LogLine
from evertick.base.records.stored import VERSION, Codec, Stored, read_object, readable, require_types
from evertick.base.records.workflows import RunFilter

# -- The retry policy of a job: the number of attempts, and the waits between them.

ATTEMPTS_MAX: Final = 1000
FLOOR_MS: Final = 1


RULES: Final[Mapping[str, Rule]] = {
    "attempts": whole(1, ATTEMPTS_MAX),
    "first_ms": whole(FLOOR_MS, HORIZON_MS),
    "factor": number(1, 100),
    "cap_ms": whole(FLOOR_MS, HORIZON_MS),
    "jitter": number(0, 0.5),
}
"""The rules for the fields of a retry policy."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts, and the waits between them.

    `attempts` counts the first try too. The wait after failure number n is `first_ms * factor ** (n - 1)`, at
    most `cap_ms`, times a random factor in [1 - jitter, 1 + jitter).
    """

    attempts: int
    first_ms: int = 250
    factor: float = 2.0
    cap_ms: int = DAY_MS
    jitter: float = 0.5

    def __post_init__(self) -> None:
        check_options(RULES, {name: getattr(self, name) for name in RULES}, "a retry policy: ")
        if self.cap_ms < self.first_ms:
            longest, first = timedelta(milliseconds=self.cap_ms), timedelta(milliseconds=self.first_ms)
            raise Misuse(f"a retry policy: cap= ({longest}), the longest wait, is shorter than first= ({first})")

    def to_json(self) -> str:
        """The policy as JSON text."""
        return json.dumps([self.attempts, self.first_ms, self.factor, self.cap_ms, self.jitter])

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The policy that `to_json` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = json.loads(text)
        if isinstance(values, dict):  # version 1 is a list
            raise SchemaMismatch("a retry policy was written by a newer release; update this one")
        return cls(*values)


def retry_of_run(workflow: str) -> Misuse:
    """The error for a retry policy of a whole run."""
    return Misuse(
        f"retry= is for mutations and actions: a run of {workflow} keeps what its steps returned, so it would fail "
        "again in the same way; give it to its steps: step.using(retry=...)"
    )


IS_RETRY: Final = one_of_type(RetryPolicy, "a policy such as Retry(5)")
"""The rule for `retry=`."""
RETRY: Final = Codec(RetryPolicy.to_json, RetryPolicy.from_json)


PRIORITY_MS: Final = 60_000
"""The weight of one step of priority: a job with priority 1 runs before one of priority 0 due up to this earlier."""
PRIORITY_MAX: Final = 1_000
"""Priorities range from -PRIORITY_MAX to PRIORITY_MAX."""


class Completion(NamedTuple):
    """A function to call with (job id, `context`, result) as `parameters` after a job has ended in one of `ends`."""

    name: str
    kind: str
    parameters: tuple[str, ...]
    context: Any
    pool: str = DEFAULT_POOL
    ends: tuple[str, ...] = ()

    def follows(self, state: str) -> bool:
        """Whether it is called after an end in this state; empty `ends` mean every state."""
        return not self.ends or state in self.ends

    def args(self, job_id: str, result: dict[str, Any]) -> str:
        """The arguments of the call, as JSON text."""
        return readable(json.dumps(dict(zip(self.parameters, (job_id, self.context, result), strict=True))))

    def to_text(self) -> str:
        """As JSON text."""
        return json.dumps({"v": VERSION, **self._asdict()})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The completion that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "the completion of a job")
        name, kind, context = (values[each] for each in ("name", "kind", "context"))
        pool, ends = values.get("pool", DEFAULT_POOL), tuple(values.get("ends", ()))
        parameters = tuple(values["parameters"])
        require_types((name, kind, pool, *parameters, *ends), str)
        return cls(name, kind, parameters, context, pool, ends)


COMPLETION: Final = Codec(Completion.to_text, Completion.from_text)


class JobError(NamedTuple):
    """An error. `data` is the JSON text of what an ApplicationError carried, None for every other error."""

    type: str
    message: str
    traceback: str = ""
    data: str | None = None

    @property
    def text(self) -> str:
        """The error in a line: `Type: message`."""
        return f"{self.type}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        values: dict[str, Any] = {"type": self.type, "message": self.message, "traceback": self.traceback}
        return values if self.data is None else values | {"data": json.loads(self.data)}

    def to_text(self) -> str:
        """As JSON text in ASCII: a lone surrogate in a message must not make the row unwritable."""
        return json.dumps({"v": VERSION, **self.to_json()})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The error that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "the error of a job")
        data = json.dumps(values["data"]) if "data" in values else None
        return cls(values["type"], values["message"], values.get("traceback", ""), data)


NO_ERROR: Final = JobError("", "")
JOB_ERROR: Final = Codec(JobError.to_text, JobError.from_text)


class FunctionKind(StrEnum):
    """What a function may do: read, write in one transaction, have side effects, or proceed step by step."""

    QUERY = "query"
    MUTATION = "mutation"
    ACTION = "action"
    WORKFLOW = "workflow"


class JobState(StrEnum):
    """The state of a job. A job that waits to be tried again is `pending` with `attempt` above 0."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"


SCRIPT_FUNCTION: Final = "evertick.script"
"""The function of the jobs that run scripts of tenants."""

GATEWAY_FUNCTION: Final = "evertick.gateway"
"""The function of the jobs that run commands of gateways. The key of such a run makes a repeated request safe."""
OWN_FUNCTIONS: Final = frozenset({SCRIPT_FUNCTION, GATEWAY_FUNCTION})

UNFINISHED = frozenset({JobState.PENDING, JobState.IN_PROGRESS})


class Stop(IntEnum):
    """How a running action is asked to stop."""

    NONE = 0
    CANCEL = 1
    """It is notified, and ends by itself."""
    FORCE = 2
    """It is interrupted repeatedly until it has ended."""


class OccurrenceRef(NamedTuple):
    """An occurrence of the schedule `id` in the job's tenant, with results of earlier runs.

    `last_result` (JSON text) and `last_failure` are those of earlier runs when this run was started.
    """

    id: ScheduleId
    origin: str
    request: str
    nominal_at: Instant
    run_id: str
    last_result: str | None
    last_failure: str | None

    def to_text(self) -> str:
        """As JSON text."""
        return json.dumps({"v": VERSION, **self._asdict()})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The reference that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "the occurrence of a job")
        ref = cls(*(values[name] for name in cls._fields))
        require_types((ref.id, ref.origin, ref.request, ref.run_id), str)
        require_types((ref.nominal_at,), int)
        require_types((ref.last_result, ref.last_failure), str | None)
        return ref


OCCURRENCE: Final = Codec(OccurrenceRef.to_text, OccurrenceRef.from_text)


class NewJob(NamedTuple):
    """A new job: one scheduled call of a function.

    `requested_at` is the requested time and never changes; `due_at` is when it may run. `args` is a JSON object by
    parameter name. `schedule` is the occurrence this job runs, if it runs one. `state` is `pending`, or `canceled`
    where a canceled job scheduled it. `pool` is the full name of the function's pool, which includes the app. Of two
    jobs the one with the higher `priority` runs first, unless the other has been due for a minute longer for each step.
    `limit_key` is the key of the pool's limit `per_key`. `trace` is its trace context (see Tracing).
    """

    id: JobId
    kind: FunctionKind
    name: str
    args: str
    requested_at: Instant
    due_at: Instant
    created_at: Instant
    tenant: TenantId = DEFAULT_TENANT
    parent_id: JobId | None = None
    key: str | None = None
    retry: Stored[RetryPolicy] | None = None
    on_complete: Stored[Completion] | None = None
    schedule: Stored[OccurrenceRef] | None = None
    state: JobState = JobState.PENDING
    pool: str = DEFAULT_POOL
    priority: int = 0
    limit_key: str | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A job for lists. `worker_id` is set while a worker has claimed it; `started_at` belongs to the last attempt."""

    id: JobId
    tenant: TenantId
    kind: FunctionKind
    name: str
    state: JobState
    requested_at: Instant
    due_at: Instant
    created_at: Instant
    started_at: Instant | None
    completed_at: Instant | None
    attempt: int
    failures: int
    crashes: int
    worker_id: WorkerId | None
    parent_id: JobId | None
    key: str | None
    schedule_id: ScheduleId | None
    pool: str
    priority: int
    stop: Stop
    """The request to the running action; the job is canceled once its function has ended."""
    retried_as: JobId | None = None
    """The job that runs it again, if it has ended and was retried or restarted."""

    @property
    def app(self) -> str | None:
        """The app whose workers run it; None if it belongs to no app (see `app_of`)."""
        return app_of(self.pool)

    @property
    def has_begun(self) -> bool:
        """Whether a worker has already worked on it, if it is the unfinished run of a workflow."""
        return self.attempt > (self.state is JobState.IN_PROGRESS)

    @property
    def is_canceled(self) -> bool:
        """Whether it was canceled, although its function may still run."""
        return self.state is JobState.CANCELED or self.stop is not Stop.NONE

    @property
    def visible_state(self) -> JobState:
        """The state for users: a claimed mutation or workflow is shown as pending, since nothing has happened yet."""
        if self.state is JobState.IN_PROGRESS and self.kind is not FunctionKind.ACTION:
            return JobState.PENDING
        return self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobSummary):
    """A job with all its data."""

    args: str
    retry: Stored[RetryPolicy] | None
    on_complete: Stored[Completion] | None
    schedule: Stored[OccurrenceRef] | None
    result: str | None
    error: Stored[JobError] | None
    limit_key: str | None


class Claim(NamedTuple):
    """A job that a worker has claimed. (worker, attempt) is the fence: every later write checks the pair.

    A named tuple, as JobEnd: there is one of each for every job, and a frozen dataclass takes five times as long.
    """

    id: JobId
    tenant: TenantId
    kind: FunctionKind
    name: str
    args: str
    due_at: Instant
    attempt: int
    failures: int
    crashes: int
    key: str | None
    retry: Stored[RetryPolicy] | None
    on_complete: Stored[Completion] | None
    schedule: Stored[OccurrenceRef] | None = None
    queue: QueueId = QueueId(0)
    rank: int = 0
    trace: str | None = None

    @property
    def is_transactional(self) -> bool:
        """Whether it runs again if its worker dies. Mutations and workflows have no effect before their end is written;
        scripts and commands of gateways have no effect twice.
        """
        return self.kind is not FunctionKind.ACTION or self.name in OWN_FUNCTIONS


BY_RANK: Final = attrgetter("rank", "id")
"""The order in which the claims of a tenant run."""


class JobEnd(NamedTuple):
    """The end of an attempt: a final state, or `pending` again with a new `due_at`."""

    id: JobId
    tenant: TenantId
    name: str
    attempt: int
    state: JobState
    completed_at: Instant | None
    due_at: Instant
    failures: int
    crashes: int
    result: str | None
    error: Stored[JobError] | None
    logs: Sequence[LogLine] = ()
    started_at: Instant | None = None
    """When the attempt began, if that is later than its claim."""


@dataclass(frozen=True, slots=True)
class CanceledJob:
    """A canceled job, and the data for its follow-ups. If it `still_runs`, they start when its function has ended."""

    on_complete: Stored[Completion] | None
    schedule: Stored[OccurrenceRef] | None = None
    still_runs: bool = False
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """A filter of a list of jobs. All fields that are set must match.

    `states` are visible states. `due_from` is inclusive, `due_until` exclusive. `error` is a part of "KeyError: no
    user", case-insensitive. `occurrence` selects runs of schedules by their nominal times, in milliseconds;
    `blocked_at` pending jobs that are due then and that no live worker serves; `runs` runs of workflows; `not_retried`
    failed jobs that were not retried and that no run has called (it would call them again); `without_runs` jobs that
    are not runs of workflows.
    """

    tenant: TenantId = DEFAULT_TENANT
    states: tuple[JobState, ...] = ()
    name: str | None = None
    schedule_id: ScheduleId | None = None
    parent_id: JobId | None = None
    id_prefix: str | None = None
    key: str | None = None
    due_from: Instant | None = None
    due_until: Instant | None = None
    occurrence: range | None = None
    error: str | None = None
    pool: str | None = None
    limit_key: str | None = None
    blocked_at: Instant | None = None
    runs: RunFilter | None = None
    not_retried: bool = False
    without_runs: bool = False


def belongs_to(pool: str, apps: Collection[str] | None) -> bool:
    """Whether the jobs of a pool belong to one of `apps`, or to no app; None means every app."""
    app = app_of(pool)
    return app is None or apps is None or app in apps


class ServedFunction(NamedTuple):
    """A function of a worker's code. `signature` is its parameters, "(user: str)". `retry` and `present` are not
    stored; `present` is the current name of the function, where `name` is a former one. `events` are the types of the
    events that a workflow declares, by name; None if it declares none.
    """

    name: str
    kind: FunctionKind
    pool: str
    signature: str
    retry: RetryPolicy | None = None
    present: str = ""
    events: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Serves:
    """The jobs that a worker runs.

    A job is served if the worker has its function, and the function or the job is in one of `pools`; None means every
    pool. The worker runs jobs of `apps` and jobs of no app. None means every app: the worker's release did not record
    it.
    """

    functions: tuple[ServedFunction, ...]
    pools: tuple[str, ...] | None = None
    apps: tuple[str, ...] | None = None

    def runs(self, name: str, pool: str) -> bool:
        """Whether the worker claims jobs of the function `name` in `pool`.

        A job belongs to the pool it was written to and to the pool of the worker's function: it may have been written
        without the app's code, or before the function was moved.
        """
        return belongs_to(pool, self.apps) and any(
            each.name == name and (self.pools is None or pool in self.pools or each.pool in self.pools)
            for each in self.functions
        )

    def to_text(self) -> str:
        """As JSON text."""
        functions = [
            dict(zip(each._fields[:4], each[:4], strict=True)) | ({"events": each.events} if each.events else {})
            for each in self.functions
        ]
        return json.dumps({"v": VERSION, "pools": self.pools, "functions": functions, "apps": self.apps})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The value that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "what a worker serves")
        functions = (
            ServedFunction(
                each["name"], FunctionKind(each["kind"]), each["pool"], each["signature"], events=each.get("events")
            )
            for each in values["functions"]
        )
        pools, apps = (None if each is None else tuple(each) for each in (values["pools"], values.get("apps")))
        return cls(tuple(functions), pools, apps)


SERVES: Final = Codec(Serves.to_text, Serves.from_text)


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs jobs. It counts as alive until `leased_until`, which it renews.

    `app` and `release` are of the code that it runs; `serves` is None for a worker of a release that did not record it.
    `zone_data` is the version of its time zone data, empty for such a worker.
    """

    id: WorkerId
    started_at: Instant
    leased_until: Instant
    host: str
    pid: int
    app: str = ""
    release: str = ""
    serves: Stored[Serves] | None = None
    code: int = 0
    """The version of the schema that it knows; 0 for a release that did not record it."""
    zone_data: str = ""


# -- The number of tries of a job. A run of a workflow is claimed each time it continues, which is not another try.


def tries_of(job: JobSummary) -> int:
    """The number of tries of a job, including the current one; 0 before the first."""
    if job.kind is not FunctionKind.WORKFLOW:
        return job.attempt
    return 0 if not job.attempt else max(1, job.failures + (job.state is not JobState.FAILED))


def try_of(claim: Claim) -> int:
    """The number of the try of a claim, from 1."""
    return claim.failures + 1 if claim.kind is FunctionKind.WORKFLOW else claim.attempt


def lines_of(job: JobSummary) -> int | None:
    """The number of the attempt whose lines the log of a job shows: the last one.

    None means the lines of all attempts, for a workflow run.
    """
    return None if job.kind is FunctionKind.WORKFLOW else job.attempt


# -- The record of a mutation that was called from outside with an idempotency key.


@dataclass(frozen=True, slots=True)
class Call:
    """A mutation that was called from outside with an idempotency key, and its result."""

    name: str
    fingerprint: str
    result: str
