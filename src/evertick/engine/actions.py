"""Actions: side effects, each started at most once per claim.

Claiming an action marks it in progress and commits, before it starts. So when anything dies afterwards, the row says
that it may have happened, and it is not repeated (unless its retry policy says so). How actions ended is written in
batches by a loop of its own: while the database is away the ends wait, and their functions are not run again. A
function that has ended has left its slot: the next is claimed while its end is written, unless too many ends wait.

An action that has seen too many workers die (a suspect) runs beside no other suspect. Suspect mutations, which run
quite alone, ask for a *pause*: nothing new is started until they are through, and what runs is not disturbed.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from evertick.base.clock import Clock
from evertick.base.ids import Entropy, IdMaker, JobId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import Canceled, Raised
from evertick.base.records import Claim, FunctionKind, JobEnd, JobState
from evertick.engine.claims import Abandoned, Attempt, Claimed, claim_due, claim_suspect
from evertick.engine.events import Counters, JobEnded
from evertick.engine.finish import finish
from evertick.engine.lanes import Lanes
from evertick.engine.loops import Loop
from evertick.engine.rotation import Rotation
from evertick.engine.runner import Runner
from evertick.engine.settings import Settings
from evertick.rules.jobs import SUSPECT_CRASHES, cut_off, ended, lost
from evertick.store.contract import Hint, Isolation, Transaction

_logger: Final = logging.getLogger("evertick.engine")

ENDS_MAX: Final = 500
"""Ends written in one transaction."""

CLEAN_UP_S: Final = 1.0
"""How long a cancelled action may still take, for its `finally`, when the worker ends."""


@dataclass(frozen=True, slots=True)
class _Running:
    task: asyncio.Task[None]
    claim: Claim
    worker_id: WorkerId
    started_at: Instant


@dataclass(frozen=True, slots=True)
class _Ended:
    claim: Claim
    end: JobEnd
    worker_id: WorkerId
    started_at: Instant


class ActionEnds(Loop):
    """Writes how actions ended. An end leaves the list only when it is written."""

    name = "action ends"

    def __init__(
        self,
        lanes: Lanes,
        clock: Clock,
        ids: IdMaker,
        settings: Settings,
        counters: Counters,
        *,
        freed: Callable[[Claim, JobEnd], None],
    ) -> None:
        super().__init__(clock, poll_ms=settings.poll_ms)
        self._lanes = lanes
        self._ids = ids
        self._counters = counters
        self._freed = freed
        self._waiting: list[_Ended] = []

    def add(self, ended: _Ended) -> None:
        """Let an end be written soon."""
        self._waiting.append(ended)
        self.poke()

    @property
    def waiting(self) -> int:
        """How many ends are not written yet."""
        return len(self._waiting)

    async def round(self) -> Instant | None:
        """Write what waits, in one transaction for each worker identity (there are two only after a lost lease)."""
        if not self._waiting:
            return None
        batch = [item for item in self._waiting if item.worker_id == self._waiting[0].worker_id][:ENDS_MAX]
        claims = {item.claim.id: item.claim for item in batch}
        ends = [item.end for item in batch]
        now = self._clock.now()

        def work(transaction: Transaction) -> set[JobId]:
            return finish(transaction, claims, ends, worker_id=batch[0].worker_id, now=now, make_id=self._ids.make)

        # READ COMMITTED: every row is named by its id and fenced. If the reply is lost, writing again is harmless:
        # what was written is no longer held, so it changes nothing and is followed by nothing.
        held = await self._lanes.write(work, isolation=Isolation.READ_COMMITTED)
        written = {id(item) for item in batch}
        self._waiting = [item for item in self._waiting if id(item) not in written]
        for item in batch:
            self._freed(item.claim, item.end)
            if item.claim.id in held:
                self._counters.jobs_ended([JobEnded(item.claim, item.end, item.started_at, now)])
            else:
                self._counters.add("actions_taken")
        return self._clock.now()


class ActionLoop(Loop):
    """Claims due actions for its free slots and runs them as tasks."""

    name = "actions"
    hears = frozenset({Hint.ACTION})

    def __init__(
        self,
        lanes: Lanes,
        clock: Clock,
        runner: Runner,
        ids: IdMaker,
        entropy: Entropy,
        settings: Settings,
        counters: Counters,
        *,
        worker_id: Callable[[], WorkerId | None],
    ) -> None:
        super().__init__(clock, poll_ms=settings.poll_ms)
        self._lanes = lanes
        self._runner = runner
        self._entropy = entropy
        self._settings = settings
        self._counters = counters
        self._worker_id = worker_id
        self._rotation = Rotation(FunctionKind.ACTION, settings.tenants)
        self._tasks: dict[Attempt, _Running] = {}
        self._asked_to_stop: dict[Attempt, int] = {}
        self._left_behind: set[Attempt] = set()
        self._suspects: set[Attempt] = set()
        self._starting = False
        self._wants_slots = False
        self._paused = False
        self.on_still: Callable[[], object] = _nothing
        """Called when nothing runs any more and a pause was asked for."""
        self._abandoned = Abandoned(lanes, clock, settings, counters, runner, FunctionKind.ACTION)
        self.ends = ActionEnds(lanes, clock, ids, settings, counters, freed=self._free)

    @property
    def running(self) -> int:
        """Actions that were begun and whose end is not written yet."""
        return len(self._tasks)

    def running_ids(self) -> list[JobId]:
        """The jobs whose functions run just now."""
        return [job_id for job_id, _ in self._tasks]

    def stop_running(self, job_id: JobId, urgency: int) -> None:
        """Cancel the function of a job that somebody wants to stop; it ends as canceled.

        One that goes on after a request is cancelled once more when its job is terminated: `urgency` 2 after 1.
        """
        for attempt, running in self._tasks.items():
            if running.claim.id == job_id and urgency > self._asked_to_stop.get(attempt, 0):
                self._asked_to_stop[attempt] = urgency
                running.task.cancel()

    async def round(self) -> Instant | None:
        """Claim what fits the free slots and start it."""
        self._wants_slots = self._free_slots <= 0
        if self._paused or self._wants_slots:
            return None  # the end of the pause, or a freed slot, pokes
        worker_id = self._worker_id()
        if worker_id is None:
            return None  # whoever gives us an identity again will poke
        self._starting = True
        try:
            return await self._claim_and_start(worker_id)
        finally:
            self._starting = False
            self._tell_if_still()

    async def _claim_and_start(self, worker_id: WorkerId) -> Instant | None:
        await self._start(await self._abandoned.look(worker_id, known=set(self._tasks)), worker_id)
        free = self._free_slots
        if free <= 0:
            return self._clock.now()  # what was found has filled them
        with self._abandoned.watching():
            claimed, suspect = await self._lanes.write(
                lambda transaction: self._claim(transaction, worker_id, free), isolation=Isolation.EACH
            )
        self._counters.add("jobs_blocked", claimed.blocked + suspect.blocked)
        await self._start(suspect.claims + claimed.claims, worker_id)
        return claimed.next_due_at if suspect.next_due_at is None else suspect.next_due_at

    def _claim(self, transaction: Transaction, worker_id: WorkerId, free: int) -> tuple[Claimed, Claimed]:
        """What fits the free slots; and a suspect, before the others, if none runs."""
        kind, now, none = FunctionKind.ACTION, self._clock.now(), Claimed([], None)
        suspect = none
        if free > 0 and not self._suspects:
            suspect = claim_suspect(transaction, kind=kind, worker_id=worker_id, runner=self._runner, now=now)
        claimed = claim_due(
            transaction,
            kind=kind,
            worker_id=worker_id,
            runner=self._runner,
            now=now,
            limit=free - len(suspect.claims),
            rotation=self._rotation,
        )
        return claimed, suspect

    @property
    def _free_slots(self) -> int:
        """Slots without a function that runs; none while too many ends wait to be written."""
        waiting = self.ends.waiting
        return self._settings.action_slots - (len(self._tasks) - waiting) if waiting < ENDS_MAX else 0

    def pause(self) -> bool:
        """Start nothing until `resume`; answers whether all is still already. If not, `on_still` will tell."""
        self._paused = True
        return not (self._tasks or self._starting)

    def resume(self) -> None:
        """Go on after a pause."""
        if self._paused:
            self._paused = False
            self.poke()

    async def drain(self, within_ms: int, at_once: asyncio.Event) -> None:
        """Let running actions end, within the time or until `at_once`; then cancel them and end them as cut off.

        One that does not end although it was cancelled is left behind: its end is written all the same.
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
        for attempt, running in list(self._tasks.items()):
            if not running.task.done():
                _logger.warning("%s does not end although it was cancelled; it is left behind", running.claim.name,
                                extra={"job_id": running.claim.id})  # fmt: skip
                self._left_behind.add(attempt)
                self.ends.add(
                    _Ended(running.claim, self._end_of_cancelled(running), running.worker_id, running.started_at)
                )

    def cancel_all(self) -> None:
        """Stop running actions: the worker stops, or its lease was taken away."""
        for running in self._tasks.values():
            running.task.cancel()

    async def _all_ended(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait([running.task for running in self._tasks.values()], timeout=seconds)

    async def _start(self, claims: list[Claim], worker_id: WorkerId) -> None:
        if worker_id != self._worker_id():
            return  # the lease was lost meanwhile, so these were given away: what has not begun need not begin
        if self.stopping and claims:
            await self._give_back(claims, worker_id)  # claimed while the worker was told to stop
            return
        for claim in claims:
            task = asyncio.create_task(self._run(claim), name=f"action {claim.name} {claim.id}")
            self._tasks[claim.id, claim.attempt] = _Running(task, claim, worker_id, self._clock.now())
            if claim.crashes >= SUSPECT_CRASHES:
                self._suspects.add((claim.id, claim.attempt))

    async def _give_back(self, claims: list[Claim], worker_id: WorkerId) -> None:
        def work(transaction: Transaction) -> None:
            for claim in claims:
                transaction.release_job(claim.id, worker_id=worker_id, attempt=claim.attempt)

        await self._lanes.write(work, isolation=Isolation.READ_COMMITTED)

    async def _run(self, claim: Claim) -> None:
        running = self._tasks[claim.id, claim.attempt]
        try:
            ran = await self._runner.run_action(claim)
        except asyncio.CancelledError:
            end = self._end_of_cancelled(running)
        else:
            end = ended(claim, ran.outcome, now=self._clock.now(), entropy=self._entropy, logs=ran.logs)
        if (claim.id, claim.attempt) not in self._left_behind:
            self.ends.add(_Ended(claim, end, running.worker_id, running.started_at))
        self._tell_of_slot()

    def _end_of_cancelled(self, running: _Running) -> JobEnd:
        """Who has cancelled it: somebody who wants the job to stop, the function itself, or the end of the worker?"""
        claim, now = running.claim, self._clock.now()
        if (claim.id, claim.attempt) in self._asked_to_stop:
            return ended(claim, Canceled(), now=now, entropy=self._entropy)
        if not running.task.cancelling():
            raised = Raised(asyncio.CancelledError.__name__, "something that the function waited for was cancelled")
            return ended(claim, raised, now=now, entropy=self._entropy)
        if self.stopping:
            return cut_off(claim, now=now, entropy=self._entropy)
        return lost(claim, now=now, entropy=self._entropy)  # the lease was lost: others have written so already

    def _free(self, claim: Claim, end: JobEnd) -> None:
        attempt = claim.id, claim.attempt
        self._tasks.pop(attempt, None)
        self._asked_to_stop.pop(attempt, None)
        if end.state is JobState.PENDING or attempt in self._suspects:
            self.poke()  # for the next try, and for the next suspect, which nobody else tells of
        self._suspects.discard(attempt)
        self._tell_of_slot()
        self._tell_if_still()

    def _tell_of_slot(self) -> None:
        if self._wants_slots:
            self.poke()

    def _tell_if_still(self) -> None:
        if self._paused and not (self._tasks or self._starting):
            self.on_still()


def _nothing() -> None:
    """Nobody waits for stillness."""
