"""Step: the interface for the code of a workflow. Everything durable goes through it.

    async def onboard(step: Step, user: str) -> int:
        user_id = await step.run(create_user, user)
        enriched, score = await asyncio.gather(step.run(enrich, user_id), step.run(rate, user_id))
        try:
            await step.wait_for("verified", timeout=timedelta(days=3))
        except TimeoutError:
            await step.using(retry=Retry(5)).run(send_reminder, user_id)
        return score

Between steps the code must be deterministic: time, randomness and ids come from `now`, `random` and `uuid`.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Final, Literal, NoReturn, ParamSpec, Protocol, TypeVar, cast

from evertick.base.errors import InvalidArguments, Misuse, ValueTooLarge
from evertick.base.escaping import shell_word
from evertick.base.ids import check_pool
from evertick.base.instants import NEVER, Instant, duration_ms, from_datetime, to_datetime
from evertick.base.job_options import NAME, PRIORITY, check_key, check_name
from evertick.base.options import FLAG, UNCHANGED, Rule, Unchanged, check_options, some, stated, takes
from evertick.base.records.jobs import IS_RETRY, RetryPolicy, retry_of_run
from evertick.base.records.stored import json_of, size_of
from evertick.base.records.workflows import IN_TRANSACTION, CallKind, Value, checked, to_text
from evertick.base.records.workflows import changed as with_changes
from evertick.base.scheduled_run import ScheduledRun
from evertick.rules.workflows.calls import PLAIN, Call, CallOptions, ContinueAsNew
from evertick.rules.workflows.run import Run

# -- The log of workflow code, which is silent during a replay.


class StepLog(Protocol):
    """`step.log`: like `ctx.log` of functions, with %-style arguments as in `logging`.

    A line is written once: not again when the code is replayed. It is stored together with the steps up to the next
    wait of the code, and kept as long as the run.
    """

    def debug(self, message: str, *args: object) -> None:
        """Write a line of the level `debug`."""
        ...

    def info(self, message: str, *args: object) -> None:
        """Write a line of the level `info`."""
        ...

    def warning(self, message: str, *args: object) -> None:
        """Write a line of the level `warning`."""
        ...

    def error(self, message: str, *args: object) -> None:
        """Write a line of the level `error`."""
        ...


class _Silent:
    """The log of code that is run over a saved history: all of its lines were written before."""

    def debug(self, message: str, *args: object) -> None:
        pass

    info = warning = error = debug


SILENT: Final[StepLog] = _Silent()


P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
R_co = TypeVar("R_co", covariant=True)

PROGRESS_BYTES_MAX: Final = 16 * 1024
RULES: Final[Mapping[str, Rule]] = {
    "name": NAME,
    "retry": IS_RETRY,
    "limit_key": NAME,
    "check_args": FLAG,
    "priority": PRIORITY,
}
"""Rules for the options of steps, except pool, key, attributes and timeout."""


def _must_be_awaited(method: F) -> F:
    """A coroutine method of Step. The run fails if the code forgets to await a coroutine of it."""

    @wraps(method)
    def call(step: "Step", *args: Any, **kwargs: Any) -> Any:
        coroutine = method(step, *args, **kwargs)
        step._run.expect_await(coroutine, f"step.{method.__name__}")
        return coroutine

    return cast("F", call)


class StepFunction(Protocol[P, R_co]):
    """A registered function. `aliases` are its earlier names."""

    name: str
    aliases: tuple[str, ...]

    @property
    def call_kind(self) -> CallKind:
        """The kind of its calls."""
        ...

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """One call of it. It gives type checkers the signature."""
        ...

    def encode_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], /) -> str:
        """The JSON text of one call's arguments. Raises InvalidArguments if they do not fit the signature."""
        ...

    def decode_result(self, text: str, /) -> R_co:
        """Its result, from the JSON text."""
        ...


class DeclaredEvents(Protocol):
    """The events that a workflow declares, with the types of their values."""

    def check_name(self, event: str, /) -> None:
        """Raise Misuse for an event that is not declared."""
        ...

    def read(self, event: str, text: str, /) -> Any:
        """A value from its JSON text. Raises InvalidArguments if it does not fit."""
        ...


class WorkflowFunction(StepFunction[P, R_co], Protocol):
    """The workflow that a step belongs to."""

    @property
    def events(self) -> DeclaredEvents | None:
        """The declared events. None if it accepts any."""
        ...


class Runnable(StepFunction[P, R_co], Protocol):
    """The argument of `step.run`: a query, a mutation or an action."""

    @property
    def call_kind(self) -> Literal[CallKind.QUERY, CallKind.MUTATION, CallKind.ACTION]:
        """The kind of its calls."""
        ...


class Child(StepFunction[P, R_co], Protocol):
    """The argument of `step.workflow`."""

    @property
    def call_kind(self) -> Literal[CallKind.WORKFLOW]:
        """The kind of its calls."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """The arguments of `step.using(...)`."""

    name: str | Unchanged | None = UNCHANGED
    retry: RetryPolicy | Unchanged | None = UNCHANGED
    pool: str | Unchanged | None = UNCHANGED
    limit_key: str | Unchanged | None = UNCHANGED
    check_args: bool | Unchanged = UNCHANGED
    timeout: float | timedelta | Unchanged | None = UNCHANGED
    key: str | Unchanged | None = UNCHANGED
    attributes: Mapping[str, Value] | Unchanged | None = UNCHANGED
    priority: int | Unchanged | None = UNCHANGED


class Step:
    """The first argument of a workflow's code: calls, waits, sleeps, time and randomness go through it."""

    __slots__ = ("_log", "_options", "_run", "_schedule", "_workflow")

    def __init__(
        self,
        run: Run,
        workflow: WorkflowFunction[..., Any],
        options: CallOptions = PLAIN,
        schedule: ScheduledRun | None = None,
        log: StepLog = SILENT,
    ) -> None:
        self._run = run
        self._workflow = workflow
        self._options = options
        self._schedule = schedule
        self._log = log

    @property
    def id(self) -> str:
        """The id of the run. A restarted run has another id than the original, also while its code repeats the steps
        that it keeps."""
        return self._run.read_id()

    @property
    def schedule(self) -> ScheduledRun | None:
        """The occurrence of this run, if a schedule or cron started it: its nominal time, and the results of earlier
        runs. None for a child workflow and for a run that was started otherwise."""
        return self._schedule

    @property
    def log(self) -> StepLog:
        """Writes lines that are stored with the run, each once: `step.log.info("%d parcels", parcels)`."""
        return self._log

    @takes(StepOptions, "step.using()")
    def using(self, options: StepOptions) -> "Step":
        """The same step with options for what it runs: `await step.using(retry=Retry(5)).run(charge, order_id)`.

        `name`: the name of the step in the journal, by default the function's. With it a step keeps its old name when
        its function is renamed, as `aliases=` of the function does for all its steps. `retry`: try a failed mutation
        or action again. `pool`: the pool it runs in. `limit_key`: the key of a limit, as for jobs. A step with one of
        these three runs as a separate job, an action always does, a query never.
        `check_args=False`: a replay does not compare the arguments. `timeout` (seconds or a timedelta): the step raises
        TimeoutError after it. A job or child workflow that runs the step is then canceled; a query or mutation is
        ended, and its writes are undone.

        Only for child workflows: `key`, an id that only one unfinished job may have; if there is one, the step raises
        StepFailed of the type AlreadyExists. A replay compares it like the arguments. `attributes`: the initial
        attributes of the child. `priority`: as for jobs.

        Raises Misuse for an unknown or invalid option, LimitExceeded, ValueTooLarge for attributes.
        """
        return Step(self._run, self._workflow, replace(self._options, **_checked(options)), self._schedule, self._log)

    @_must_be_awaited
    async def run(self, function: Runnable[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run a query, a mutation or an action, and return its result.

        A mutation and its row in the journal are one commit, so it runs exactly once. An action is started once; with
        `using(retry=...)` it is tried again.

        Raises StepFailed if the function failed, StepOutcomeUnknown if its worker was lost while it ran, TimeoutError
        after `using(timeout=...)`, InvalidArguments if the arguments do not fit its signature.
        """
        kind = _kind_of(function)
        if kind is CallKind.WORKFLOW:
            raise Misuse(f"{function.name} is a workflow; call step.workflow({function.name.rpartition('.')[2]}, ...)")
        self._refuse_for_children()
        if self._options.needs_job:
            if kind is CallKind.QUERY:
                raise Misuse(
                    f"{function.name} is a query, which runs with the code of the workflow and never as a job; "
                    "leave out retry=, pool= and limit_key="
                )
            kind = CallKind.JOB
        return function.decode_result(await self._run.call(self._call(kind, function, args, kwargs)))

    @_must_be_awaited
    async def workflow(self, function: Child[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run a child workflow, and return its result. Abandoning the call cancels the child.

            await step.using(key=f"{document_id}-page-{n}").workflow(process_page, document_id, n)

        Raises StepFailed if it failed or was canceled, or if its key is taken, TimeoutError after `using(timeout=...)`,
        InvalidArguments if the arguments do not fit its signature.
        """
        if _kind_of(function) is not CallKind.WORKFLOW:
            raise Misuse(f"{function.name} is no workflow; call step.run({function.name.rpartition('.')[2]}, ...)")
        if self._options.retry is not None:
            raise retry_of_run(function.name)
        if self._options.limit_key is not None:
            raise Misuse("limit_key= is for what runs; a child workflow waits most of its time: give it to its steps")
        return function.decode_result(await self._run.call(self._call(CallKind.WORKFLOW, function, args, kwargs)))

    @_must_be_awaited
    async def sleep(self, delay: float | timedelta) -> None:
        """Wait for a time of any length, in seconds or as a timedelta. A run that waits needs no memory.

        Raises InvalidDelay if it is negative or not finite.
        """
        self._refuse_timeout("a sleep ends by itself")
        due_at = self._due_at(duration_ms(delay, name="delay"))
        await self._run.call(Call(CallKind.SLEEP, self._options.name or "sleep", due_at=due_at))

    @_must_be_awaited
    async def sleep_until(self, at: datetime) -> None:
        """Wait until a time; not at all if it has passed. Raises InvalidDelay unless `at` is an aware datetime."""
        self._refuse_timeout("a sleep ends by itself")
        due_at = Instant(max(self._run.now, from_datetime(at, "sleep_until")))
        await self._run.call(Call(CallKind.SLEEP, self._options.name or "sleep", due_at=due_at))

    @_must_be_awaited
    async def wait_for(self, event: str, *, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109
        """Wait for an event that is sent to this run, and return its value. Events are kept until they are received.

        The value is plain JSON, or has the type that `@app.workflow(events={event: type})` declares.

        Raises TimeoutError if none comes within `timeout` (seconds or a timedelta), Misuse for an event that the
        workflow does not declare although it declares others, InvalidArguments for a value that does not fit the type.
        """
        check_name(event, "an event")
        declared = self._workflow.events
        if declared is not None:
            declared.check_name(event)
        self._refuse_timeout("write wait_for(event, timeout=...)")
        due_at = None if timeout is None else self._due_at(duration_ms(timeout, name="timeout"))
        text = await self._run.call(Call(CallKind.EVENT, event, due_at=due_at))
        if declared is None:
            return json.loads(text)
        try:
            return declared.read(event, text)
        except InvalidArguments as error:
            cure = f"`evertick workflow restart {self._run.id} --step {shell_word(event)}` waits for it again"
            raise InvalidArguments(f"{error}; {cure}") from error

    def now(self) -> datetime:
        """The time of the last event that the run has seen. It is the same in every replay."""
        return to_datetime(self._run.now)

    def random(self) -> float:
        """A number in [0, 1), the same in every replay."""
        return self._run.random.random()

    def uuid(self) -> uuid.UUID:
        """A random UUID (version 4), the same in every replay."""
        return uuid.UUID(int=self._run.random.getrandbits(128), version=4)

    def patched(self, patch_id: str) -> bool:
        """Whether a run takes the new path of changed code: False for runs that have already passed the old path.

            if step.patched("two mails"):
                await step.run(send_second_mail, user)

        When no run needs the old path any more, the call and that path can be removed together: runs with the patch in
        their journal continue.
        """
        check_name(patch_id, "a patch")
        return self._run.patched(patch_id)

    def progress(self, value: Any) -> None:
        """Report the progress of the run to readers: a JSON value of at most 16 KiB; the last one counts.

        Raises InvalidArguments if it cannot be written as JSON, ValueTooLarge if it is larger.
        """
        text = json_of(value, f"run {self.id}: its progress")
        if (size := size_of(text)) > PROGRESS_BYTES_MAX:
            raise ValueTooLarge(f"run {self.id}: a progress of {size} bytes; the limit is {PROGRESS_BYTES_MAX}")
        self._run.report_progress(text)

    def set_attributes(self, attributes: Mapping[str, Value | None] | None = None, /, **values: Value | None) -> None:
        """Set attributes of the run, which lists can filter by: `step.set_attributes(customer="c7", stage="paid")`.

        Attributes that are not given keep their values; None removes one. They are written together with the step, and
        stay when the run ends, is restarted or continues as new. Use the mapping for names that are not Python
        identifiers.

        Raises Misuse for a name that is not printable text of 1 to 64 characters, or a value that is no str, int
        (64 bits) or bool, ValueTooLarge for a text of more than 255 characters, LimitExceeded for more than 20.
        """
        self._run.set_attributes(checked({**({} if attributes is None else attributes), **values}))

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this run and continue as a new one with the same id, these arguments and an empty journal.

        Call it in the workflow function itself, not in a task. Raises InvalidArguments if the arguments do not fit.
        """
        self._run.check_main("continue_as_new")
        raise ContinueAsNew(self._workflow.encode_args(args, kwargs))

    def _call(
        self, kind: CallKind, function: StepFunction[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Call:
        name = self._options.name or function.name
        arguments = function.encode_args(args, kwargs)
        limit_ms = None if kind in IN_TRANSACTION else self._options.timeout_ms
        due_at = None if limit_ms is None else self._due_at(limit_ms)
        return Call(
            kind, name, function=function.name, arguments=arguments, options=self._options, due_at=due_at,
            aliases=() if self._options.name else function.aliases,
        )  # fmt: skip

    def _due_at(self, delay_ms: int) -> Instant:
        return Instant(min(self._run.now + delay_ms, NEVER))

    def _refuse_for_children(self) -> None:
        if given := self._options.for_children:
            raise Misuse(f"{', '.join(f'{name}=' for name in given)} is for child workflows, which step.workflow runs")

    def _refuse_timeout(self, instead: str) -> None:
        self._refuse_for_children()
        if self._options.timeout_ms is not None:
            raise Misuse(f"using(timeout=...) is for step.run and step.workflow; {instead}")


def _checked(options: StepOptions) -> dict[str, Any]:
    """Options as `CallOptions` has them. Raises Misuse, LimitExceeded, ValueTooLarge."""
    changed = stated(options)
    check_options(RULES, some(changed))
    if changed.get("pool") is not None:
        check_pool(changed["pool"])
    if changed.get("key") is not None:
        check_key(changed["key"], what="a key")
    if "attributes" in changed:
        given = changed["attributes"]
        changed["attributes"] = "" if given is None else to_text(with_changes({}, checked(given)))
    if "timeout" in changed:
        timeout = changed.pop("timeout")
        changed["timeout_ms"] = None if timeout is None else duration_ms(timeout, name="timeout")
        if changed["timeout_ms"] == 0:
            raise Misuse(f"timeout= takes a millisecond or more, not {timeout!r}")
    if "check_args" in changed:
        changed["check_arguments"] = changed.pop("check_args") is not False
    return changed


def _kind_of(function: StepFunction[..., Any]) -> CallKind:
    kind = getattr(function, "call_kind", None)
    if not isinstance(kind, CallKind):
        raise Misuse(f"a step runs a registered query, mutation or action, not {function!r}")
    return kind
