"""A run: the code of a workflow on a separate loop, driven by the rows of its journal.

This module uses no database and no clock. `deliver` takes one row and runs the code until it waits; then

* `take_rows` returns rows for the code's new calls: they belong into the same commit as the row delivered;
* `next_step` is the query or mutation to run next, inside the transaction. Its row also contains the outcome and is
  delivered at once. Other calls begin with their row, and another row is delivered when they have ended;
* `end` says how the run has ended.

A run creates its rows itself, so positions have no gaps and time does not go back. The same rows, delivered in the same
order, lead the same code to the same calls: that is all that a replay needs (`replay.py`).
"""

import contextvars
import inspect
import random
import zlib
from asyncio import all_tasks
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVarTuple

from evertick.base.errors import JournalTooLarge, LimitExceeded, Misuse, StepOutsideWorkflow
from evertick.base.ids import JobId
from evertick.base.instants import NEVER, Instant
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.workflows import IN_TRANSACTION, CallKind, Row, RowKind, Value, changed, from_text, to_text
from evertick.rules.workflows.calls import (
    Call,
    CallFuture,
    ContinueAsNew,
    ContinuedAsNew,
    Request,
    RunEnd,
    Timer,
    end_of,
    exception_of,
)
from evertick.rules.workflows.event_loop import DeterministicLoop, Evicted, running_loop

Ts = TypeVarTuple("Ts")

JOURNAL_BYTES_MAX: Final = 8 * 1024 * 1024
JOURNAL_ROWS_MAX: Final = 50_000
CALLS_OPEN_MAX: Final = 10_000
"""Calls that one run may wait for at a time."""
UNAWAITED_MAX: Final = 1_000
"""Coroutines of steps that a run keeps in mind before it forgets those that were awaited."""
REFUSALS_MAX: Final = 1_000
"""Calls that code may try while its run leaves memory. Code that catches even that is then abandoned where it waits."""

Body: TypeAlias = "Callable[[Run], Coroutine[Any, Any, str]]"
"""The code of a workflow: it takes its run and returns its result as JSON text."""


class Run(DeterministicLoop):
    """One run in memory. `seed` is the same in every replay, and different for each run and generation."""

    def __init__(self, run_id: str, body: Body, *, seed: str) -> None:
        super().__init__(hash_base=zlib.crc32(seed.encode()) << 20, now=Instant(0))
        self.id = run_id
        self.position = 0
        """The position of the next row."""
        self.size = 0
        """Bytes of the journal so far."""
        self.open_calls: dict[int, Call] = {}
        """Calls that have not ended, by number, in the order of the calls."""
        self.cancel_requested = False
        self.progress: str | None = None
        """The last progress that the code reported, as JSON text."""
        self.attributes: dict[str, Value] = {}
        """The attributes of the run. The first row has those with which its generation began."""
        self.skipped_patches: list[str] = []
        """Patches of the journal that the code did not ask for."""
        self.random = random.Random(seed)
        self.is_replayed = False
        """Whether the code repeats what it has done before."""
        self.on_line: Callable[[Instant, str, str], object] | None = None
        """Called with each line that the code logs: its time, its level and its text."""
        self._body = body
        self._keeps_steps_of_another = seed.partition("/")[0] != run_id
        """Whether the run was restarted from a step: then it has the seed of the run that made the earlier steps."""
        self._id_was_read = False
        self._seq = 0
        self._requests: deque[Request] = deque()
        self._steps: deque[Call] = deque()
        self._patches: dict[str, bool] = {}
        self._recorded_patches: frozenset[str] | None = None
        self._refusals = 0
        self._unawaited: list[tuple[Coroutine[Any, Any, Any], str]] = []
        self._unawaited_max = UNAWAITED_MAX

    # -- results of the rows

    @property
    def end(self) -> RunEnd | None:
        """How the run has ended. None if it has not."""
        if self._main is None or not self._main.done():
            return None
        return end_of(self._main, cancel_requested=self.cancel_requested)

    @property
    def error(self) -> BaseException | None:
        """The error of the code that has ended the run. None if the run continues, returned or was canceled."""
        ended = self._main is not None and self._main.done() and not self._main.cancelled()
        return self._main.exception() if ended and self._main is not None else None

    @property
    def has_ended(self) -> bool:
        """Whether the workflow function has ended. Its remaining tasks do not run any more."""
        return self._main is not None and self._main.done()

    @property
    def is_stuck(self) -> bool:
        """Whether the code waits, but for no call: no row can ever wake it."""
        return self._main is not None and not self.has_ended and not self.open_calls

    @property
    def next_request(self) -> Request | None:
        """The first request of the code that has no row yet. None if there is none."""
        return self._requests[0] if self._requests else None

    @property
    def next_step(self) -> Call | None:
        """The query or mutation to run next. None if there is none."""
        while self._steps and self._steps[0].seq not in self.open_calls:
            self._steps.popleft()
        return self._steps[0] if self._steps and not self.has_ended else None

    @property
    def next_due_at(self) -> Instant:
        """When the first timer is due; NEVER if there is none."""
        return min((call.due_at for call in self.open_calls.values() if call.due_at is not None), default=NEVER)

    # -- rows

    def start_row(self, at: Instant) -> Row:
        """The first row of a journal that begins with the current attributes of the run.

        The numbers of its calls continue: the end of an abandoned call may come after the run has continued as new.
        """
        return Row(0, RowKind.START, self._seq, "", at, arguments=to_text(self.attributes))

    def step_row(self, call: Call, outcome: Returned | Raised, at: Instant) -> Row:
        """The row of `next_step`, which has run."""
        return Row(
            self.position, RowKind.STEP, call.seq, call.name, max(at, self.now),
            call.kind, call.fingerprint, outcome=outcome.of_step if isinstance(outcome, Raised) else outcome,
        )  # fmt: skip

    def end_row(self, call: Call, outcome: Returned | Raised | None, at: Instant, sender: str | None = None) -> Row:
        """The row of a call that has ended; `outcome` is None for a timer, `sender` is that of an event."""
        return Row(self.position, RowKind.END, call.seq, call.name, max(at, self.now), outcome=outcome, sender=sender)

    def cancel_row(self, at: Instant) -> Row:
        """The row of a request to cancel the run."""
        return Row(self.position, RowKind.CANCEL, 0, "", max(at, self.now))

    def take_rows(
        self, *, at: Instant, attempt: int | None = None, make_id: Callable[[], str] | None = None
    ) -> list[tuple[Row, Call | None]]:
        """Return rows for calls that the code has made and abandoned since the last row, with the calls.

        `attempt` is the claim under which the actions among them begin. `make_id` makes the ids of jobs: the row of a
        call that is a job has the id as its outcome.
        """
        taken = []
        while self._requests:
            request = self._requests[0]
            call = request.call
            if call is None or request.kind is RowKind.DROP:
                row = Row(self.position, request.kind, request.seq, request.name, max(at, self.now))
            else:
                begun = attempt if call.kind is CallKind.ACTION else None
                row = Row(
                    self.position, RowKind.CALL, call.seq, call.name, max(at, self.now),
                    call.kind, call.fingerprint, call.due_at, begun,
                    Returned(make_id()) if make_id is not None and call.runs_as_job else None,
                )  # fmt: skip
            self.confirm(row)
            taken.append((row, call))
        return taken

    def confirm(self, row: Row) -> None:
        """Note that the next request has this row in the journal."""
        request = self._requests.popleft()
        if request.call is not None and request.kind is RowKind.CALL:
            request.call.is_recorded = True
            request.call.due_at, request.call.attempt = row.due_at, row.attempt
            if isinstance(row.outcome, Returned):
                request.call.job_id = JobId(row.outcome.result)
        self._count(row)

    def skip_patch(self, row: Row) -> None:
        """Skip a patch row that the code does not ask for here. If it asks later, it takes the new path."""
        self._patches[row.name] = True
        self.skipped_patches.append(row.name)
        self._count(row)

    def deliver(self, row: Row, *, recorded_patches: frozenset[str] | None = None) -> None:
        """Deliver a row (start, step, end, cancel) to the code, and run it until it waits.

        `recorded_patches` are the patches among the rows that follow, up to the next that is delivered; None if no row
        follows. Raises WorkflowStuck if the code does not reach a wait.
        """
        self._count(row)
        self.now = row.seen_at
        self._recorded_patches = recorded_patches
        self.drive(self._reaction(row))
        if self.has_ended:
            self._give_up_the_rest()

    def _reaction(self, row: Row) -> Callable[[], object]:
        """A function that delivers the row to the code."""
        if row.kind is RowKind.START:
            self.attributes = from_text(row.arguments)
            self._seq = row.seq
            return self._begin
        if row.kind is RowKind.CANCEL:
            self.cancel_requested = True
            assert self._main is not None  # noqa: S101
            return self._main.cancel
        call = self.open_calls.pop(row.seq)
        call.is_recorded = True
        waiting, call.awaited = call.awaited, None
        if isinstance(waiting, Timer):
            return waiting._run
        assert waiting is not None  # noqa: S101
        outcome = row.outcome
        if isinstance(outcome, Raised):
            return partial(waiting.set_exception, exception_of(call, outcome))
        return partial(waiting.set_result, None if outcome is None else outcome.result)

    def _count(self, row: Row) -> None:
        self.position = row.position + 1
        self.size += row.size

    def _begin(self) -> None:
        # An empty context, because context variables of the worker differ between replays.
        self._main = contextvars.Context().run(lambda: self.create_task(self._until_end(), name="workflow"))

    async def _until_end(self) -> Returned | ContinuedAsNew:
        try:
            result = await self._body(self)
            self._check_all_awaited()
            return Returned(result)
        except ContinueAsNew as again:
            self._check_all_awaited()
            return ContinuedAsNew(again.arguments)

    def expect_await(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        """Note a coroutine that the code must await before it ends."""
        if len(self._unawaited) >= self._unawaited_max:
            self._unawaited = [each for each in self._unawaited if _is_unawaited(each[0])]
            self._unawaited_max = 2 * len(self._unawaited) + UNAWAITED_MAX
        self._unawaited.append((coroutine, name))

    def _check_all_awaited(self) -> None:
        """Raise Misuse if the code has returned and forgotten an `await`: what it called has not run."""
        unawaited = [each for each in self._unawaited if _is_unawaited(each[0])]
        in_tasks = {task.get_coro() for task in all_tasks(self)} if unawaited else set()
        for coroutine, name in unawaited:
            if coroutine not in in_tasks:
                coroutine.close()
                raise Misuse(f"the result of {name}(...) was not awaited, so it did not run: write `await {name}(...)`")

    @property
    def may_call_otherwise(self) -> bool:
        """Whether arguments may differ from those in the journal: the code has read the id of its run, and the earlier
        steps of a restarted run were called with another id.
        """
        return self._keeps_steps_of_another and self._id_was_read

    # -- what the code calls

    def read_id(self) -> str:
        """Return the id of the run, for its code."""
        self._id_was_read = True
        return self.id

    def call(self, call: Call) -> CallFuture:
        """Make a call. The result of the future is the JSON text of the call's result, or the error of a step.

        Raises StepOutsideWorkflow, JournalTooLarge or LimitExceeded.
        """
        future = CallFuture(call, self.give_up, loop=self)
        call.awaited = future
        self._admit(call)
        return future

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Timer:
        """Create a timer of asyncio: a call like any other, so it lasts as long as the run, in memory or not."""
        due_at = Instant(max(self.now, round(min(when * 1000, NEVER))))
        call = Call(CallKind.TIMER, "asyncio", due_at=due_at)
        timer = Timer(call, callback, args, loop=self, context=context)
        call.awaited = timer
        self._admit(call)
        return timer

    def _timer_handle_cancelled(self, handle: Any) -> None:
        self.give_up(handle.call)

    def give_up(self, call: Call) -> None:
        """Abandon a call: the code does not await it any more."""
        if self.is_evicted or self.open_calls.pop(call.seq, None) is None:
            return
        if call.is_recorded and call.runs_as_job:
            self._requests.append(Request(RowKind.DROP, call.seq, call.name, call))
        elif not call.is_recorded and call.kind not in IN_TRANSACTION:
            self._requests = deque(request for request in self._requests if request.call is not call)

    def _give_up_the_rest(self) -> None:
        """Abandon all calls, because the code has ended: calls without a row do not begin, and the others end."""
        for call in list(self.open_calls.values()):
            if call.is_recorded and call.runs_as_job:
                self._requests.append(Request(RowKind.DROP, call.seq, call.name, call))
        self._requests = deque(request for request in self._requests if request.kind is RowKind.DROP)
        self.open_calls.clear()

    def patched(self, patch_id: str) -> bool:
        """Whether to run the new code of a change: False if the journal was written by the code before it."""
        self._check_inside(f"patched({patch_id!r})")
        known = self._patches.get(patch_id)
        if known is None:
            known = self._recorded_patches is None or patch_id in self._recorded_patches
            self._patches[patch_id] = known
            if known:
                self._requests.append(Request(RowKind.PATCH, 0, patch_id))
        return known

    def report_progress(self, value: str) -> None:
        """Store the progress for readers, as JSON text."""
        self._check_inside("progress")
        self.progress = value

    @property
    def repeats(self) -> bool:
        """Whether log lines are repetitions: the code is replayed, or it leaves memory and will be."""
        return self.is_replayed or self.is_evicted

    def check_inside(self, what: str) -> None:
        """Raise StepOutsideWorkflow unless called by the run's code, or while the run leaves memory."""
        if not self.is_evicted:
            self._check_inside(what)

    def write_line(self, at: Instant, level: str, text: str) -> None:
        """Pass on a line that the code logs."""
        if self.on_line is not None:
            self.on_line(at, level, text)

    def set_attributes(self, changes: Mapping[str, Any]) -> None:
        """Change attributes, which are checked; None removes one. Raises LimitExceeded."""
        self._check_inside("set_attributes")
        self.attributes = changed(self.attributes, changes)

    def check_main(self, what: str) -> None:
        """Raise StepOutsideWorkflow unless called by the main task, which alone may end the run."""
        self._check_inside(what)
        if self.current_task is not self._main:
            raise StepOutsideWorkflow(f"{what} was called in a task; call it in the workflow function")

    def _admit(self, call: Call) -> None:
        if running_loop() is not self:  # first, because code of another run may use the steps of an evicted run
            self._check_inside(repr(call))
        if self.is_evicted:
            self._refusals += 1
            if self._refusals > REFUSALS_MAX:
                return
            raise Evicted
        if self.position >= JOURNAL_ROWS_MAX or self.size > JOURNAL_BYTES_MAX:
            raise JournalTooLarge(
                f"run {self.id}: its journal has {self.position} rows and {self.size} bytes before {call!r} "
                f"(limits: {JOURNAL_ROWS_MAX} and {JOURNAL_BYTES_MAX}); end the run with step.continue_as_new in time, "
                "and let steps return ids instead of what they name"
            )
        if len(self.open_calls) >= CALLS_OPEN_MAX:
            raise LimitExceeded(
                f"run {self.id} waits for {CALLS_OPEN_MAX} calls at a time, the limit, before {call!r}; "
                "bound them with asyncio.Semaphore"
            )
        self._seq += 1
        call.seq = self._seq
        self.open_calls[call.seq] = call
        if call.kind in IN_TRANSACTION:
            self._steps.append(call)
        else:
            self._requests.append(Request(RowKind.CALL, call.seq, call.name, call))

    def _check_inside(self, what: str) -> None:
        if running_loop() is not self:
            raise StepOutsideWorkflow(
                f"{what} was called outside the code of its run {self.id}: "
                "a step works in the coroutines of its run only, not in a thread, an action or another event loop"
            )

    # -- leaving memory

    def evict(self) -> None:
        """End the code where it waits, so that the run can leave memory. Replay restores it."""
        self.drive(self.close_tasks)
        self.open_calls.clear()
        self._requests.clear()
        self._steps.clear()


def _is_unawaited(coroutine: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def new_run(run_id: str, body: Body, *, seed: str) -> Run:
    """A run before its first row."""
    return Run(run_id, body, seed=seed)  # type: ignore[abstract]  # other methods of a loop raise
