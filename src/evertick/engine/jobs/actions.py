"""Actions: side effects, each started at most once per claim.

Claiming an action marks it in progress and commits before the action starts. If anything dies afterwards, the row says
that the action may have happened, and it is not repeated unless its retry policy says so. A failover can undo the
commit of a claim or of an end; this process does not begin that attempt a second time. A loop of its own writes ends in
batches. While the database is unavailable, the ends wait and their functions are not run again. An action whose
function has ended no longer uses a slot: the next one is claimed while its end is written, unless too many ends wait.

An action during which too many workers have died (a suspect) never runs at the same time as another suspect. Suspect
mutations run alone, so they ask for a *pause*: no new action starts until they have ended; running actions continue.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import JobId, WorkerId
from evertick.base.instants import MILLISECOND, Instant
from evertick.base.outcomes import STUCK, Canceled, Outcome, Raised
from evertick.base.records.history import AttemptLog, LogLine
from evertick.base.records.jobs import JOB_ERROR, Claim, FunctionKind, JobEnd, JobError, JobState, Stop
from evertick.base.records.stored import size_of, storable
from evertick.base.step_limit import Blocking
from evertick.engine.jobs.claims import BYTES_MAX, JOB_BYTES_MAX, Attempt, Capacity, Claimed, ClaimingLoop, give_back
from evertick.engine.jobs.completion import finish, logged_by
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import call_in_loop
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.metrics import JobEnded
from evertick.engine.runtime.runner import RunningAction
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES, cut_off, ended, lost, once_more
from evertick.store.notifications import Notification
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

# -- Actions that a worker has begun and whose ends are not written yet.


class Owner(Protocol):
    """The loop that begins actions."""

    def finish(
        self, running: "BegunAction", transaction: Transaction, outcome: Outcome, logs: Sequence[LogLine],
        again_at: Instant | None = None,
    ) -> JobEnd | None: ...  # fmt: skip
    def note_stuck(self, running: "BegunAction") -> None: ...
    def log_held(self, running: "BegunAction", held: Blocking) -> None: ...


class BegunAction(RunningAction):
    """An action that was begun and whose end is not written yet."""

    __slots__ = ("_owner", "claim", "has_ended", "is_canceled", "started_at", "task", "worker_id")

    task: asyncio.Task[None]

    def __init__(self, owner: Owner, claim: Claim, worker_id: WorkerId, started_at: Instant) -> None:
        super().__init__()
        self._owner = owner
        self.claim = claim
        self.worker_id = worker_id
        self.started_at = started_at
        self.is_canceled = False
        """Whether its job was canceled, and not only its worker is about to end."""
        self.has_ended = False

    def finish(
        self, transaction: Transaction, outcome: Outcome, logs: Sequence[LogLine], again_at: Instant | None = None, /
    ) -> JobEnd | None:
        return self._owner.finish(self, transaction, outcome, logs, again_at)

    def on_stuck(self) -> None:
        self._owner.note_stuck(self)

    def on_held(self, held: Blocking) -> None:
        self._owner.log_held(self, held)

    @property
    def is_suspect(self) -> bool:
        """Whether too many workers have died while they ran it."""
        return self.claim.crashes >= SUSPECT_CRASHES


class EndedAction(NamedTuple):
    running: BegunAction
    end: JobEnd


# -- Blocked event loops: log which action blocks the event loop of its worker. This happens in a separate thread
# because nothing on the loop runs meanwhile.
#
# An action that runs long without an await is interrupted (`evertick.base.step_limit`), unless it waits inside C code.
# Its worker is still alive and renews its lease, so no other worker runs the action.

_logger: Final = logging.getLogger("evertick.engine")

TRIES_MAX: Final = 10
"""How often the worker tries to record a stuck action while the database is unavailable."""
PAUSE_S: Final = 1.0


def log_held(deps: EngineDeps, claim: Claim, worker_id: WorkerId, held: Blocking) -> None:
    """Log the blocked loop. Also record it at the job if the action goes on although it was interrupted."""
    if not held.is_stuck:
        _logger.warning("%s has not awaited for %.0f s and holds the event loop of its worker, at %s", claim.name,
                        held.seconds, held.where, extra={"job_id": claim.id})  # fmt: skip
        return
    _logger.error("%s holds the event loop of its worker although it was interrupted, at %s; no async action starts "
                  "until it ends", claim.name, held.where, extra={"job_id": claim.id})  # fmt: skip
    deps.counters.add("actions_stuck")
    words = (
        f"it was interrupted, because it did not await, and goes on at {held.where}: it waits inside C code or catches "
        "the interruption; until it ends, it holds the event loop of its worker, and no other async action starts there"
    )
    error = JOB_ERROR.value(JobError(STUCK, words))
    for _ in range(TRIES_MAX):
        try:
            deps.store.write(
                lambda transaction: transaction.note_error(claim.id, error, worker_id=worker_id, attempt=claim.attempt),
                isolation=Isolation.READ_COMMITTED,
            )
            return
        except (Unavailable, Conflict) as problem:
            _logger.debug("%s: that it is stuck could not be written: %s", claim.name, problem)
            time.sleep(PAUSE_S)


ENDS_MAX: Final = 500
"""Ends written in one transaction, at most."""

BEGUN_MAX: Final = 10_000
"""Attempts remembered after their end, at most."""
CLEAN_UP_S: Final = 1.0
"""How much longer a cancelled action may take, for its `finally`, when the worker ends."""


class ActionEnds(Loop):
    """Writes how actions ended. An end leaves the list only after it is written."""

    name = "action ends"

    def __init__(self, deps: EngineDeps, *, on_written: Callable[[BegunAction, JobEnd], None]) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll // MILLISECOND)
        self._on_written = on_written
        self._waiting: list[EndedAction] = []
        self._at_a_time = ENDS_MAX

    def add(self, ended: EndedAction) -> None:
        """Add an end, which is written soon."""
        self._waiting.append(ended)
        self.poke()

    @property
    def waiting(self) -> int:
        """Number of ends that are not written yet."""
        return len(self._waiting)

    async def round(self) -> Instant | None:
        """Write the waiting ends, in one transaction per worker identity (there are two only after a lost lease)."""
        if not self._waiting:
            return None
        worker_id = self._waiting[0].running.worker_id
        batch = [item for item in self._waiting if item.running.worker_id == worker_id][: self._at_a_time]
        claims = {item.end.id: item.running.claim for item in batch}
        ends = [item.end for item in batch]
        now = self._deps.clock.now()

        def work(transaction: Transaction) -> dict[JobId, JobEnd]:
            held = finish(transaction, claims, ends, worker_id=worker_id, now=now, make_id=self._deps.ids.make)
            if len(held) < len(ends):
                transaction.confirm()  # before an end is forgotten
            return held

        # READ COMMITTED is enough: each row is selected by id and fenced. If the reply is lost, writing again is
        # harmless: jobs whose end was written are not held any more, so the second write changes nothing.
        try:
            held = await self._deps.executors.write(work, isolation=Isolation.READ_COMMITTED)
        except (Unavailable, Conflict):
            raise
        except Exception as error:
            self._write_plain_end(batch, error)
            return self._deps.clock.now()
        self._at_a_time = ENDS_MAX
        written = {id(item) for item in batch}
        self._waiting = [item for item in self._waiting if id(item) not in written]
        events: list[JobEnded] = []
        for running, wanted in batch:
            end = held.get(wanted.id)
            self._on_written(running, end or wanted)
            if end is not None:
                events.append(JobEnded(running.claim, end, running.started_at, now))
        self._deps.counters.jobs_ended(events)
        if taken := len(batch) - len(events):
            self._deps.counters.add("actions_taken", taken)
        return self._deps.clock.now()

    def _write_plain_end(self, batch: list[EndedAction], error: Exception) -> None:
        """After an unknown failure of the engine: find the end that causes it, and write a plain end instead."""
        if len(batch) > 1:
            self._at_a_time = len(batch) // 2
            return
        [(running, end)] = batch
        claim = running.claim
        _logger.error("how %s ended cannot be written", claim.name, exc_info=error, extra={"job_id": claim.id})
        self._waiting = [item for item in self._waiting if item is not batch[0]]
        if (claim.on_complete, claim.schedule, claim.retry) != (None, None, None) or end.logs or end.result:
            raised = Raised(type(error).__name__, storable(f"how it ended cannot be written: {storable(str(error))}"))
            running.claim = claim._replace(on_complete=None, schedule=None, retry=None)
            plain = ended(running.claim, raised, now=self._deps.clock.now(), entropy=self._deps.entropy)
            self.add(EndedAction(running, plain))


class ActionLoop(ClaimingLoop):
    """Claims due actions for its free slots and runs them as tasks."""

    name = "actions"
    subscribes = frozenset({Notification.ACTION})
    kind = FunctionKind.ACTION

    def __init__(self, deps: EngineDeps, *, worker_id: Callable[[], WorkerId | None]) -> None:
        super().__init__(deps, worker_id=worker_id)
        self._tasks: dict[Attempt, BegunAction] = {}
        self._begun: dict[Attempt, None] = {}
        """The last BEGUN_MAX attempts that were begun here. Their functions are not called again."""
        self._starting = False
        self._wants_slots = False
        self._suspect_waits = True
        """Whether the last poll found a suspect that is due."""
        self._stuck: list[BegunAction] = []
        self.on_stuck: Callable[[], object] = lambda: None
        """Called when an action is stuck."""
        self.ends = ActionEnds(deps, on_written=self._free)
        self.on_line: Callable[[], object] = lambda: None
        """Called when a running function has logged a line, in any thread."""

    @property
    def running(self) -> int:
        """Number of actions that were begun and whose end is not written yet."""
        return len(self._tasks)

    def running_ids(self) -> list[JobId]:
        """The jobs whose functions are running."""
        return [job_id for job_id, _ in self._tasks]

    def running_logs(self) -> list[tuple[Claim, AttemptLog]]:
        """The logs of running functions. A function that ends has its log stored with its end."""
        return [(running.claim, running.log) for running in self._tasks.values() if not running.has_ended]

    def stop_running(self, job_id: JobId, stop: Stop) -> None:
        """Ask the function of a canceled job to stop. The job is canceled when the function has ended."""
        for running in self._tasks.values():
            if running.claim.id == job_id:
                running.is_canceled = True
                running.ask(stop)

    @property
    def stuck(self) -> list[tuple[Claim, WorkerId]]:
        """Actions that go on although they were interrupted, and that are not recorded yet."""
        return [(running.claim, running.worker_id) for running in self._stuck]

    def stuck_are_noted(self, count: int) -> None:
        """Forget the first `count` of `stuck`: they are recorded."""
        del self._stuck[:count]

    async def round(self) -> Instant | None:
        """Claim as many actions as there are free slots and start them."""
        capacity = self._capacity()
        self._wants_slots = capacity.jobs <= 0 or capacity.bytes < JOB_BYTES_MAX
        if self._paused_by or self._wants_slots or (worker_id := self._worker_id()) is None:
            return None  # the end of the pause, a freed slot or the next registration pokes this loop
        self._starting = True
        try:
            return await self._claim_and_start(worker_id, capacity)
        finally:
            self._starting = False
            self._notify_if_idle()

    async def _claim_and_start(self, worker_id: WorkerId, capacity: Capacity) -> Instant | None:
        if found := await self._claims.lost(worker_id, known=set(self._tasks)):
            await self._start(found, worker_id)
            capacity = self._capacity()
        if capacity.jobs <= 0:
            return self._deps.clock.now()  # the lost claims that were found have filled the slots
        with self._claims.watching():
            claimed, suspect = await self._deps.executors.write(
                lambda transaction: self._claim(transaction, worker_id, capacity),
                isolation=self._claims.isolation(Isolation.EACH),
            )
        await self._start(suspect.claims + claimed.claims, worker_id)
        was_asked = self._suspect_waits
        if claimed.suspect_is_due is not None:
            self._suspect_waits = claimed.suspect_is_due
        asks_next = self._suspect_waits and not was_asked
        return self._deps.clock.now() if suspect.claims or asks_next else claimed.next_due_at

    def _claim(self, transaction: Transaction, worker_id: WorkerId, capacity: Capacity) -> tuple[Claimed, Claimed]:
        """Claim for the free slots; then claim newcomers that arrived during the claim, in slots that became free.

        If the last poll saw a suspect and no suspect runs, claim a suspect first.
        """
        now, suspect = self._deps.clock.now(), Claimed([], None)
        if self._suspect_waits and not self._runs_suspect:
            suspect = self._claims.suspect(transaction, worker_id, now=now)
        capacity = replace(capacity, jobs=capacity.jobs - len(suspect.claims))
        claimed = self._claims.claim_newcomers_first(transaction, worker_id, now=now, capacity=capacity)
        if self._claims.newcomers.notified and claimed.claims:
            held = suspect.claims + claimed.claims
            size = sum(size_of(claim.args) for claim in claimed.claims)
            capacity = replace(capacity, jobs=self._free_slots - len(held), bytes=capacity.bytes - size)
            since = self._claims.claim_newcomers_since(
                transaction, worker_id, now=self._deps.clock.now(), capacity=capacity
            )
            claimed = replace(claimed, claims=since.claims + claimed.claims)
        return claimed, suspect

    def _capacity(self) -> Capacity:
        """Free slots, and running jobs per tenant: a freed slot goes to the tenant with the fewest running jobs."""
        running = [each.claim for each in self._tasks.values() if not each.has_ended]
        size = sum(size_of(claim.args) for claim in running)
        tenants = Counter(claim.tenant for claim in running)
        return Capacity(jobs=self._free_slots, bytes=BYTES_MAX - size, running=tenants)

    @property
    def _runs_suspect(self) -> bool:
        return any(running.is_suspect for running in list(self._tasks.values()))

    @property
    def _free_slots(self) -> int:
        """Slots without a running function; 0 while too many ends wait to be written."""
        waiting = self.ends.waiting
        return self._deps.settings.action_slots - (len(self._tasks) - waiting) if waiting < ENDS_MAX else 0

    @property
    def is_idle(self) -> bool:
        """Whether no action runs or is being claimed."""
        return not (self._tasks or self._starting)

    async def drain(self, within_ms: int, at_once: asyncio.Event) -> None:
        """Wait until running actions end, for `within_ms` or until `at_once`; then cancel them and end them as cut off.

        An action that does not end after its cancellation is abandoned; its end is written all the same.
        """
        if self._tasks:
            actions = "1 running action" if len(self._tasks) == 1 else f"{len(self._tasks)} running actions"
            _logger.info("waiting up to %.0f s for %s", within_ms / 1000, actions)
            waits = [asyncio.create_task(self._all_ended(within_ms / 1000)), asyncio.create_task(at_once.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        self.cancel_all()
        await self._all_ended(CLEAN_UP_S)
        for running in list(self._tasks.values()):
            if not running.task.done():
                running.ask(Stop.FORCE)
                _logger.warning("%s does not end although it was cancelled; it is left behind", running.claim.name,
                                extra={"job_id": running.claim.id})  # fmt: skip
                self._end(running, self._end_of(running, Canceled()))

    def cancel_all(self) -> None:
        """Ask running actions to stop, because the worker stops or has lost its lease."""
        for running in self._tasks.values():
            running.ask(Stop.CANCEL)

    async def _all_ended(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait([running.task for running in self._tasks.values()], timeout=seconds)

    async def _start(self, claims: list[Claim], worker_id: WorkerId) -> None:
        if worker_id != self._worker_id():
            return  # the lease was lost meanwhile and other workers have these jobs: do not begin them
        if self.stopping and claims:
            await give_back(self._deps, claims, worker_id)  # claimed while the worker was asked to stop
            return
        now = self._deps.clock.now()
        for claim in claims:
            if (claim.id, claim.attempt) in self._tasks:
                continue  # a failover has undone its claim and it was claimed again: it runs already
            running = BegunAction(self, claim, worker_id, now)
            running.log.on_line = self.on_line
            running.task = asyncio.create_task(self._run(claim), name=f"action {claim.name} {claim.id}")
            self._tasks[claim.id, claim.attempt] = running

    async def _run(self, claim: Claim) -> None:
        attempt = (claim.id, claim.attempt)
        running = self._tasks[attempt]
        try:
            if attempt in self._begun:  # a failover has undone its claim, or its end, which is lost
                text = "%s had begun here, and a failover has undone its claim or its end; it is not called again"
                _logger.warning(text, claim.name, extra={"job_id": claim.id})
                end = lost(claim, now=self._deps.clock.now(), entropy=self._deps.entropy)
            else:
                self._remember(attempt)
                ran = await self._deps.runner.run_action(claim, running)
                if ran.end is not None:
                    self._is_written(running, ran.end)
                    return
                end = self._end_of(running, ran.outcome, ran.again_at)
        except asyncio.CancelledError:  # the event loop ends
            end = self._end_of(running, Canceled())
        except Exception as error:  # errors of the function are outcomes, so this is a row that cannot be read
            _logger.exception("%s could not be run", claim.name, extra={"job_id": claim.id})
            raised = Raised(type(error).__name__, storable(str(error)))
            end = ended(claim._replace(retry=None), raised, now=self._deps.clock.now(), entropy=self._deps.entropy)
        self._end(running, end)
        self._poke_for_slot()

    def _remember(self, attempt: Attempt) -> None:
        self._begun[attempt] = None
        if len(self._begun) > BEGUN_MAX:
            del self._begun[next(iter(self._begun))]

    def _end(self, running: BegunAction, end: JobEnd) -> None:
        if not running.has_ended:  # otherwise it was abandoned, and has ended later nevertheless
            running.has_ended = True
            # The last two fields are passed here because `_replace` takes several times as long, for each action.
            self.ends.add(EndedAction(running, JobEnd(*end[:-2], running.log.unstored(), running.started_at)))

    def finish(
        self,
        running: BegunAction,
        transaction: Transaction,
        outcome: Outcome,
        logs: Sequence[LogLine],
        again_at: Instant | None = None,
    ) -> JobEnd | None:
        """See `RunningAction.finish`."""
        claim, deps = running.claim, self._deps
        end = self._end_of(running, outcome, again_at)._replace(logs=logs, started_at=running.started_at)
        held = finish(
            transaction, {claim.id: claim}, [end],
            worker_id=running.worker_id, now=deps.clock.now(), make_id=deps.ids.make,
        )  # fmt: skip
        return held.get(claim.id)

    def _is_written(self, running: BegunAction, end: JobEnd) -> None:
        """Handle an action whose runner has written the end itself."""
        if not running.has_ended:
            running.has_ended = True
            self._free(running, end)
            self._deps.counters.jobs_ended([JobEnded(running.claim, end, running.started_at, self._deps.clock.now())])

    def _end_of(self, running: BegunAction, outcome: Outcome, again_at: Instant | None = None) -> JobEnd:
        """The end of an action. The meaning of `CancelledError` depends on what was stopped: job, worker or action."""
        claim, now, entropy = running.claim, self._deps.clock.now(), self._deps.entropy
        if running.is_canceled:
            outcome = Canceled()
        elif isinstance(outcome, Canceled):
            if not running.asked and (not running.task.cancelling() or running.worker_id == self._worker_id()):
                what = "its task" if running.task.cancelling() else "something that the function waited for"
                text = f"{what} was cancelled by code in its worker"
                outcome = Raised(asyncio.CancelledError.__name__, text)
            elif self.stopping:
                return cut_off(claim, now=now, entropy=entropy)
            else:
                return lost(claim, now=now, entropy=entropy)  # the lease was lost: others have written this end
        elif again_at is not None and isinstance(outcome, Raised):
            return once_more(claim, outcome, at=again_at)
        return ended(claim, outcome, now=now, entropy=entropy)

    def log_held(self, running: BegunAction, held: Blocking) -> None:
        """See `RunningAction.on_held`."""
        log_held(self._deps, running.claim, running.worker_id, held)

    def note_stuck(self, running: BegunAction) -> None:
        """See `RunningAction.on_stuck`."""
        claim = running.claim
        _logger.warning("%s does not end although it was interrupted; it keeps its slot until it ends", claim.name,
                        extra={"job_id": claim.id})  # fmt: skip
        self._deps.counters.add("actions_stuck")
        self._stuck.append(running)
        self.on_stuck()

    def _free(self, running: BegunAction, end: JobEnd) -> None:
        self._tasks.pop((running.claim.id, running.claim.attempt), None)
        if end.state is JobState.PENDING or running.is_suspect or self._claims.holds_back:
            self.poke()  # for the next attempt, the next suspect, and the tenant's next job: no one else pokes
        self._poke_for_slot()
        self._notify_if_idle()

    def _poke_for_slot(self) -> None:
        if self._wants_slots:
            Loop.poke(self)  # without `notify`: a free slot is not a new tenant


# -- Action logs: lines that running actions log are stored while they run, so that they can be read before the end.
#
# Lines are stored half a second after the first one was written, in one transaction for all actions. While nothing is
# logged, nothing is written. Later lines are stored together with the end of the action, as are lines that could not be
# stored earlier. Each line has a number and is stored only once.

STORE_AFTER_MS: Final = 500
"""How long a line waits for others. Most actions end sooner, and their lines are stored with the end."""


class ActionLogs(Loop):
    """Stores the lines that running actions log."""

    name = "action logs"

    def __init__(self, deps: EngineDeps, *, running: Callable[[], list[tuple[Claim, AttemptLog]]]) -> None:
        """`running` returns the logs of running functions, with the claims of their jobs."""
        super().__init__(deps, poll_ms=deps.settings.poll // MILLISECOND)
        self._running = running
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_notified = False
        self._store_at: Instant | None = None

    def notify(self) -> None:
        """Note that a running action has written a line. May be called in any thread."""
        if not self._is_notified and self._loop is not None:
            self._is_notified = True
            call_in_loop(self._loop, self.poke)

    async def run(self) -> None:
        """See `Loop.run`."""
        self._loop = asyncio.get_running_loop()
        await super().run()

    async def round(self) -> Instant | None:
        """Store the new lines when the first of them has waited for `STORE_AFTER_MS`."""
        now = self._deps.clock.now()
        if self._store_at is None:
            if not self._is_notified:
                return None
            self._store_at = Instant(now + STORE_AFTER_MS)
        if now < self._store_at <= now + STORE_AFTER_MS:  # `_store_at` is later only if the clock was set back
            return self._store_at
        self._is_notified = False  # lines that are written from here on notify again
        await self._store()
        self._store_at = None
        return None

    async def _store(self) -> None:
        new = [(logged_by(claim, claim.attempt, log.unstored()), log) for claim, log in self._running()]
        lines = [each for each, _ in new if each.lines]
        if lines:
            now = self._deps.clock.now()
            # If it is unknown whether the lines are stored, they are stored again: that changes nothing.
            await self._deps.executors.write(
                lambda transaction: transaction.add_logs(lines, now=now), isolation=Isolation.READ_COMMITTED
            )
            for each, log in new:
                log.stored(len(each.lines))


# -- Cancellation: asks running actions to stop when their job was canceled, and records those that do not end.
#
# The request is stored in the job's row. While actions run, this loop checks for requests at every notification, and
# once a second in case a notification is lost. An `async def` action gets a `CancelledError` at its next await and may
# clean up. A plain `def` sees `ctx.cancel_requested`. A forced stop interrupts both kinds until the function has ended.
# The job is in progress until then.

CHECKS_PER_POLL: Final = 5
"""How often this loop checks for requests, while actions run, per poll interval of other loops: usually every second.
"""
STUCK_ERROR: Final = JobError(
    STUCK,
    "it was interrupted, because its time is over or it was stopped, and goes on: it catches the interruption or waits "
    "inside C code; it keeps its slot until it ends",
)


class CancellationLoop(Loop):
    """Checks for requests to stop."""

    name = "cancellation"
    subscribes = frozenset({Notification.STOP})

    def __init__(self, deps: EngineDeps, actions: ActionLoop) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll // MILLISECOND)
        self._check_every_ms = max(1, deps.settings.poll // MILLISECOND // CHECKS_PER_POLL)
        self._actions = actions
        self._actions.on_stuck = self.poke

    async def round(self) -> Instant | None:
        """Forward stop requests to the actions and record those that do not end; check again soon while any runs."""
        running = self._actions.running_ids()
        if not running:
            return None
        await self._note_stuck()
        asked = await self._deps.executors.read(lambda transaction: transaction.stops_asked(running))
        for job_id, stop in asked.items():
            self._actions.stop_running(job_id, stop)
        return Instant(self._deps.clock.now() + self._check_every_ms)

    async def _note_stuck(self) -> None:
        stuck = self._actions.stuck
        if not stuck:
            return

        def work(transaction: Transaction) -> None:
            for claim, worker_id in stuck:
                error = JOB_ERROR.value(STUCK_ERROR)
                transaction.note_error(claim.id, error, worker_id=worker_id, attempt=claim.attempt)

        await self._deps.executors.write(work, isolation=Isolation.READ_COMMITTED)
        self._actions.stuck_are_noted(len(stuck))
