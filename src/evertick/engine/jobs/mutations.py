"""The mutation loop: claims due mutations in batches and runs them.

The claim of a batch need not reach the disk: after a crash that loses a claim, the job is still pending.

Batches run one after another, because concurrent batches conflict. But on PostgreSQL a batch that takes longer than
`SLOW_S` continues concurrently with later ones, so a slow mutation delays only its own batch. And while tenants with
few jobs are served together with one that has many, their new jobs do not wait for its batch but run concurrently.

When a worker dies, a crash is counted for every job that it held. So a mutation during which too many workers have died
(a *suspect*) runs alone: no other mutation and no workflow run is held, and no action runs in this process. While a
suspect waits, the other loops start nothing new, so the wait is limited to what they run. Other mutations continue
meanwhile. Workflow runs are the same: the loop of mutations and that of workflows pause each other. If both have a
suspect, one of them gives way: a paused loop resumes those that it has paused itself.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import WorkerId
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.base.records.stored import size_of
from evertick.engine.jobs.actions import ActionLoop
from evertick.engine.jobs.batch import Batch
from evertick.engine.jobs.claims import BYTES_MAX, Capacity, Claimed, ClaimingLoop, give_back
from evertick.engine.jobs.recovery import BatchRunner
from evertick.engine.jobs.tenant_fairness import SHARE, SHARE_CONCURRENT, BatchSize
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import Work
from evertick.engine.runtime.metrics import JobEnded
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES
from evertick.store.notifications import Notification
from evertick.store.store import Isolation

BATCHES_IN_A_ROW: Final = 8
"""Full batches that are run one after another before the loop checks for suspects and lost claims."""
BATCHES_MAX: Final = 4
"""Concurrent batches on PostgreSQL, at most. Each has its own transaction."""
SLOW_S: Final = 0.05
"""After this time a batch runs on concurrently, if capacity allows, and the next one is claimed and run."""
STILL_WAITING_MS: Final = SECOND_MS
"""Time between two checks whether another worker has taken the suspect, while it waits for actions to end."""


class MutationLoop(ClaimingLoop):
    """Runs due mutations."""

    name = "mutations"
    subscribes = frozenset({Notification.MUTATION})
    kind = FunctionKind.MUTATION

    def __init__(self, deps: EngineDeps, *, worker_id: Callable[[], WorkerId | None], actions: ActionLoop) -> None:
        super().__init__(deps, worker_id=worker_id)
        self._others: list[ClaimingLoop] = []
        """The loops that are paused while a suspect runs here."""
        self._exclude(actions)
        self._in_round = False
        self._batches = BatchRunner(deps)
        self._separate: dict[asyncio.Task[Any], list[Claim]] = {}
        """Batches that run concurrently with the others: slow ones, and those of newcomers."""
        self._suspect_waits = False
        self._size = BatchSize(deps.settings.batch, share=SHARE if deps.store.single_engine else SHARE_CONCURRENT)
        self._wake = asyncio.Event()
        """Set while a batch runs: when it has ended, or when jobs were scheduled that may be claimed."""

    def poke(self) -> None:
        """Poll again at once, also for new tenants."""
        self._wake.set()
        super().poke()

    async def run(self) -> None:
        """Run as `Loop.run`, then wait for the concurrent batches."""
        try:
            await super().run()
            while self._separate:
                await asyncio.wait(self._separate, timeout=SLOW_S)
                self._forget_ended()
        finally:
            for task in self._separate:
                task.cancel()

    def exclude(self, other: "MutationLoop") -> None:
        """Connect two loops: while one runs a suspect, the other holds nothing."""
        self._exclude(other)
        other._exclude(self)

    def _exclude(self, other: ClaimingLoop) -> None:
        self._others.append(other)
        other.on_idle.append(self.poke)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is claimed or held, and no claim is in progress."""
        return not (self._in_round or self._separate)

    async def round(self) -> Instant | None:
        """Claim a batch of due mutations, run them and write their ends; then a suspect, if it may run."""
        self._forget_ended()
        if self._paused_by:
            self._let_others_run()  # one of them may be paused from here, and wait for this loop as this one for it
            self._notify_if_idle()
            return None  # the end of the pause pokes this loop
        self._in_round = True
        try:
            return await self._claim_and_run_all()
        finally:
            self._in_round = False
            self._notify_if_idle()

    def _let_others_run(self) -> None:
        """End the pauses that a suspect needed."""
        if self._suspect_waits:
            self._suspect_waits = False
            for other in self._others:
                other.resume(self.name)

    async def _claim_and_run_all(self) -> Instant | None:
        worker_id = self._worker_id()
        if worker_id is None:
            return None  # the next registration pokes this loop
        known = {(claim.id, claim.attempt) for claim in self._separate_claims}
        found = await self._claims.lost(worker_id, known=known)
        if found:
            await self._run_found(found, worker_id)
            return self._deps.clock.now()
        claimed = await self._run_due(worker_id)
        if claimed.suspect_is_due is None:
            return claimed.next_due_at
        if not claimed.suspect_is_due:
            self._let_others_run()
            return claimed.next_due_at
        self._suspect_waits = True
        are_idle = [other.pause(self.name) for other in self._others]
        if not all(are_idle) or self._separate:
            check_at = Instant(self._deps.clock.now() + STILL_WAITING_MS)
            return check_at if claimed.next_due_at is None else min(claimed.next_due_at, check_at)
        await self._run_suspect(worker_id)
        return self._deps.clock.now()

    # -- due mutations

    async def _run_due(self, worker_id: WorkerId) -> Claimed:
        """Claim due mutations and run them, up to a few full batches in a row. Return the last claim."""
        started: list[Claimed] = []
        task = asyncio.create_task(self._claim_and_run(worker_id, started), name=self.name)
        if not await self._ended_soon(task, started, may_claim=True):
            self._run_separately(task, started[0].claims)
            return started[0]
        claimed, has_run = task.result()
        return claimed if has_run else await self._run_while_claiming(claimed, worker_id)

    async def _claim_and_run(self, worker_id: WorkerId, started: list[Claimed]) -> tuple[Claimed, bool]:
        """Claim a batch and run it in the same thread, unless the next one is to be claimed while it runs.

        Return the claim and whether the batch has run. The claim is added to `started` when the batch begins: a batch
        that became concurrent before that would never run.
        """
        loop = asyncio.get_running_loop()
        nothing = Batch([], worker_id)

        def begin(claimed: Claimed) -> Work[list[JobEnded]] | None:
            self._size.note(claimed.claims, self._deps.clock.now())
            if not claimed.claims or self._claims_ahead(claimed, worker_id):
                return None
            batch = replace(nothing, claims=claimed.claims)
            if self._batches.reads_before(batch):
                return None
            started.append(claimed)
            if self._claims.newcomers.notified:  # set by jobs that were scheduled during the claim
                loop.call_soon_threadsafe(self._wake.set)
            return self._batches.work(batch)

        with self._claims.watching():
            claimed, begun = await self._deps.executors.write_two(
                self._claim_work(worker_id), begin, isolation=self._claims.isolation(Isolation.RELAXED)
            )
        if begun is not None:
            await self._batches.complete(replace(nothing, claims=claimed.claims), begun)
        return claimed, begun is not None

    async def _run_while_claiming(self, claimed: Claimed, worker_id: WorkerId) -> Claimed:
        """Run a full batch while the next one is claimed: the database works on one, this process on the other.

        Return the last claim, with the last known state of suspects: not every claim polls.
        """
        suspect_is_due = claimed.suspect_is_due
        for _ in range(BATCHES_IN_A_ROW):
            if not self._claims_ahead(claimed, worker_id):
                break
            ahead = asyncio.create_task(self._claim(worker_id, claimed.claims))
            try:
                await self._run(claimed.claims, worker_id, may_claim=False)
            except BaseException:
                ahead.cancel()
                raise
            claimed = await ahead
            self._size.note(claimed.claims, self._deps.clock.now())
            if claimed.suspect_is_due is not None:
                suspect_is_due = claimed.suspect_is_due
        await self._run(claimed.claims, worker_id)
        return replace(claimed, suspect_is_due=suspect_is_due)

    def _claims_ahead(self, claimed: Claimed, worker_id: WorkerId) -> bool:
        """Whether to claim the next batch while this one runs: this one is full, and batches are not slow."""
        if self._deps.store.single_engine or not self._batches.last_batch_complete:
            return False
        return self._may_claim(worker_id) and self._size.is_filled(claimed.claims, self._deps.clock.now())

    def _may_claim(self, worker_id: WorkerId) -> bool:
        """Whether more may be claimed in this round: the lease is valid, and no other loop has a suspect.

        Jobs that are claimed after the lease is lost are taken away at once, and a crash is counted.
        """
        return not self.stopping and not self._paused_by and worker_id == self._worker_id()

    async def _claim(self, worker_id: WorkerId, runs: list[Claim], *, newcomers: bool = False) -> Claimed:
        with self._claims.watching():
            work = self._claim_work(worker_id, runs, newcomers=newcomers)
            return await self._deps.executors.write(work, isolation=self._claims.isolation(Isolation.RELAXED))

    def _claim_work(self, worker_id: WorkerId, runs: Sequence[Claim] = (), *, newcomers: bool = False) -> Work[Claimed]:
        """The work that claims a batch in addition to the claims `runs` and the concurrent batches."""
        clock, held = self._deps.clock, [*runs, *self._separate_claims]
        size = sum(size_of(claim.args) for claim in held)
        capacity = Capacity(jobs=self._size.jobs(clock.now()), bytes=BYTES_MAX - size)
        claim = self._claims.claim_newcomers if newcomers else self._claims.claim_due
        return lambda transaction: claim(transaction, worker_id, now=clock.now(), capacity=capacity)

    # -- concurrent batches

    async def _run(self, claims: list[Claim], worker_id: WorkerId, *, may_claim: bool = True) -> None:
        """Run claims. If that takes long, they continue concurrently with the next ones."""
        if not claims:
            return
        task = asyncio.create_task(self._batches.run(claims, worker_id), name=self.name)
        if await self._ended_soon(task, [Claimed(claims, None)], may_claim=may_claim):
            task.result()
        else:
            self._run_separately(task, claims)

    async def _ended_soon(self, task: asyncio.Task[Any], started: Sequence[Claimed], *, may_claim: bool) -> bool:
        """Wait for a batch. Return False if it is slow and may continue concurrently: its claim must be in `started`.

        From then on newcomers run concurrently if they may be claimed, that is, if no other claim is in progress.
        """
        time = asyncio.get_running_loop().time
        began_at = time()
        task.add_done_callback(lambda _: self._wake.set())
        try:
            while not task.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SLOW_S):
                        await self._wake.wait()
                self._wake.clear()
                if started and may_claim and not task.done():
                    await self._run_newcomers(started[0].claims)
                if started and not task.done() and self._may_separate and time() - began_at >= SLOW_S:
                    return False
        except BaseException:
            task.cancel()
            raise
        return True

    async def _run_newcomers(self, runs: list[Claim]) -> None:
        """Claim what was scheduled while the batch `runs` of a large tenant is running, and run it at once."""
        worker_id, now = self._worker_id(), self._deps.clock.now()
        if not (self._claims.newcomers.notified and self._may_separate and self._size.is_small(now)):
            return
        if worker_id is None or not self._may_claim(worker_id):
            return
        try:
            claims = (await self._claim(worker_id, runs, newcomers=True)).claims
        except (Unavailable, Conflict):
            return  # the next claim searches for what this one took
        if claims:
            self._size.note([*runs, *claims], now)
            self._run_concurrently(asyncio.create_task(self._batches.run(claims, worker_id), name=self.name), claims)

    @property
    def _may_separate(self) -> bool:
        """Whether another batch may be concurrent: SQLite runs one at a time, and a suspect waits until none is."""
        return not self._deps.store.single_engine and not self._suspect_waits and len(self._separate) < BATCHES_MAX - 1

    @property
    def _separate_claims(self) -> list[Claim]:
        """The claims of the concurrent batches."""
        return [claim for claims in self._separate.values() for claim in claims]

    def _run_separately(self, task: asyncio.Task[Any], claims: list[Claim]) -> None:
        self._deps.counters.add("batches_separated")
        self._run_concurrently(task, claims)

    def _run_concurrently(self, task: asyncio.Task[Any], claims: list[Claim]) -> None:
        self._separate[task] = claims
        task.add_done_callback(lambda _: self.poke())

    def _forget_ended(self) -> None:
        """Forget concurrent batches that have ended. Raises the error of one that ended unexpectedly."""
        for task in [task for task in self._separate if task.done()]:
            del self._separate[task]
            task.result()

    # -- suspects and lost claims

    async def _run_suspect(self, worker_id: WorkerId) -> None:
        """Claim a suspect and run it while nothing else is held in this process."""
        if worker_id != self._worker_id():
            return
        with self._claims.watching():
            claimed = await self._deps.executors.write(
                lambda transaction: self._claims.suspect(transaction, worker_id, now=self._deps.clock.now()),
                isolation=self._claims.isolation(Isolation.EACH),
            )
        await self._batches.run(claimed.claims, worker_id)

    async def _run_found(self, found: list[Claim], worker_id: WorkerId) -> None:
        """Run lost claims, but give suspects back: they are claimed again when they may run."""
        suspects = [claim for claim in found if claim.crashes >= SUSPECT_CRASHES]
        if suspects:
            with self._claims.watching():
                await give_back(self._deps, suspects, worker_id)
        await self._run([claim for claim in found if claim.crashes < SUSPECT_CRASHES], worker_id)


class WorkflowLoop(MutationLoop):
    """Advances due workflow runs, in batches and transactions of the same kind."""

    name = "workflows"
    subscribes = frozenset({Notification.WORKFLOW})
    kind = FunctionKind.WORKFLOW

    async def run(self) -> None:
        """Run as for mutations; then end the runs in memory, in a thread because their code may block it."""
        try:
            await super().run()
            await self._deps.executors.call(self._batches.memory.close)
        finally:
            self._batches.memory.close()

    async def round(self) -> Instant | None:
        """Run a round as for mutations; a worker without workflows costs no transaction."""
        if any(function.kind is FunctionKind.WORKFLOW for function in self._deps.runner.functions()):
            return await super().round()
        return None
