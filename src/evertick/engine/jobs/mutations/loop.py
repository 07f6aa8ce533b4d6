"""The mutation loop: claims due mutations in batches and has them run.

The claim of a batch need not reach the disk: a claim that a crash forgets is a job that is still pending.

When a worker dies, everything it held counts a crash. So a mutation that has seen too many die (a *suspect*) runs
alone: no other is held, and no action runs in this process. The action loop starts nothing new while one waits, so it
waits at most for the actions that already run, and the other mutations go on meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from evertick.base.ids import WorkerId
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.engine.jobs.actions import ActionLoop
from evertick.engine.jobs.claims import Claimed, Claims, Room, give_back
from evertick.engine.jobs.mutations.batch import Batch, Result
from evertick.engine.jobs.mutations.recovery import BatchRunner
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import Work
from evertick.engine.runtime.loop import Loop
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES
from evertick.store.contract.notifications import Notification
from evertick.store.contract.store import Isolation

BATCHES_IN_A_ROW: Final = 8
"""Batches that are run one after another while they are full, before the loop looks for suspects and lost claims."""
STILL_WAITING_MS: Final = SECOND_MS
"""While a suspect waits for actions to end: time between two looks whether another worker has taken it."""


class MutationLoop(Loop):
    """Runs due mutations."""

    name = "mutations"
    subscribes = frozenset({Notification.MUTATION})

    def __init__(self, deps: EngineDeps, *, worker_id: Callable[[], WorkerId | None], actions: ActionLoop) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll_ms)
        self._worker_id = worker_id
        self._actions = actions
        self._actions.on_idle = self.poke
        self._claims = Claims(deps, FunctionKind.MUTATION)
        self._batches = BatchRunner(deps)

    async def round(self) -> Instant | None:
        """Claim a batch of due mutations, run them, write their ends; then a suspect, if it may run."""
        worker_id = self._worker_id()
        if worker_id is None:
            return None  # the next registration pokes
        found = await self._claims.lost(worker_id)
        if found:
            await self._run_found(found, worker_id)
            return self._deps.clock.now()
        claimed = await self._run_due(worker_id)
        if claimed.suspect_is_due is None:
            return claimed.next_due_at
        if not claimed.suspect_is_due:
            self._actions.resume()
            return claimed.next_due_at
        if not self._actions.pause():
            look_at = Instant(self._deps.clock.now() + STILL_WAITING_MS)
            return look_at if claimed.next_due_at is None else min(claimed.next_due_at, look_at)
        await self._run_suspect(worker_id)
        return self._deps.clock.now()

    # -- due mutations

    async def _run_due(self, worker_id: WorkerId) -> Claimed:
        """Claim due mutations and run them, a few batches while they are full; returns the last claim."""
        claimed, begun = await self._claim_and_begin(worker_id)
        if begun is None:
            return await self._run_while_claiming(claimed, worker_id)
        await self._batches.complete(Batch(claimed.claims, worker_id), begun)
        return claimed

    async def _claim_and_begin(self, worker_id: WorkerId) -> tuple[Claimed, Awaitable[list[Result]] | None]:
        """Claim a batch and begin it in the same thread, unless the next is to be claimed while it runs."""

        def begin(claimed: Claimed) -> Work[list[Result]] | None:
            if not claimed.claims or self._claims_ahead(claimed, worker_id):
                return None
            return self._batches.work(Batch(claimed.claims, worker_id))

        with self._claims.watching():
            claimed, begun = await self._deps.executors.write_two(
                self._claim_work(worker_id), begin, isolation=Isolation.RELAXED
            )
        return claimed, begun

    async def _run_while_claiming(self, claimed: Claimed, worker_id: WorkerId) -> Claimed:
        """Run a full batch while the next is claimed: the database works on one, this process on the other.

        Returns the last claim, with what the last look at suspects saw: not every claim looks.
        """
        suspect_is_due = claimed.suspect_is_due
        for _ in range(BATCHES_IN_A_ROW):
            if not self._claims_ahead(claimed, worker_id):
                break
            ahead = asyncio.create_task(self._claim(worker_id))
            try:
                await self._batches.run(claimed.claims, worker_id)
            except BaseException:
                ahead.cancel()
                raise
            claimed = await ahead
            if claimed.suspect_is_due is not None:
                suspect_is_due = claimed.suspect_is_due
        await self._batches.run(claimed.claims, worker_id)
        return replace(claimed, suspect_is_due=suspect_is_due)

    def _claims_ahead(self, claimed: Claimed, worker_id: WorkerId) -> bool:
        """Whether to claim the next batch while this one runs: it is full, and batches are run in time."""
        if self._deps.store.single_engine or not self._batches.last_batch_complete:
            return False
        # Under an identity whose lease was lost, whatever is claimed is taken away at once, and counts a crash.
        may_claim = not self.stopping and worker_id == self._worker_id()
        return may_claim and len(claimed.claims) == self._deps.settings.batch

    async def _claim(self, worker_id: WorkerId) -> Claimed:
        with self._claims.watching():
            return await self._deps.executors.write(self._claim_work(worker_id), isolation=Isolation.RELAXED)

    def _claim_work(self, worker_id: WorkerId) -> Work[Claimed]:
        clock, limit = self._deps.clock, self._deps.settings.batch
        return lambda transaction: self._claims.due(transaction, worker_id, now=clock.now(), room=Room(jobs=limit))

    # -- suspects and lost claims

    async def _run_suspect(self, worker_id: WorkerId) -> None:
        """Claim a suspect and run it: nothing else is held in this process."""
        if worker_id != self._worker_id():
            return
        with self._claims.watching():
            claimed = await self._deps.executors.write(
                lambda transaction: self._claims.suspect(transaction, worker_id, now=self._deps.clock.now()),
                isolation=Isolation.EACH,
            )
        await self._batches.run(claimed.claims, worker_id)

    async def _run_found(self, found: list[Claim], worker_id: WorkerId) -> None:
        """Run lost claims, but give suspects back: they are claimed again when they may run."""
        suspects = [claim for claim in found if claim.crashes >= SUSPECT_CRASHES]
        if suspects:
            with self._claims.watching():
                await give_back(self._deps, suspects, worker_id)
        await self._batches.run([claim for claim in found if claim.crashes < SUSPECT_CRASHES], worker_id)
