"""The mutation loop: due mutations, many in one commit, each exactly once.

A round claims a batch (first commit; it need not reach the disk, since a forgotten claim is a job still pending), runs
it, and writes how each ended (second commit). The writes of a mutation and its end are in that same second commit, so
either both are there or neither. If the commit meets a conflict, or one of the jobs was taken away meanwhile
(canceled, or reaped from a worker that seemed dead), nothing was written, and the batch is run again in halves. If
the connection breaks during the commit, the job's row, read under a lock, tells whether it was applied.

When a worker dies, everything it held counts a crash. So a mutation that has seen too many die (a *suspect*) runs
alone: no other is held, and no action runs in this process. The action loop starts nothing new while one waits, so it
waits at the most for the actions that run already, and the other mutations go on meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from evertick.base.clock import Clock
from evertick.base.errors import Conflict, OutcomeUnknown, Unavailable, WriteConflict
from evertick.base.ids import Entropy, IdMaker, WorkerId
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.records import Claim, FunctionKind, JobEnd
from evertick.engine.actions import ActionLoop
from evertick.engine.claims import Abandoned, Claimed, claim_due, claim_suspect
from evertick.engine.events import Counters, JobEnded
from evertick.engine.finish import finish
from evertick.engine.lanes import Lanes
from evertick.engine.loops import Loop
from evertick.engine.rotation import Rotation
from evertick.engine.runner import Runner
from evertick.engine.settings import Settings
from evertick.rules.jobs import SUSPECT_CRASHES, ended
from evertick.rules.retry import RetryPolicy, retry_delay_ms
from evertick.store.contract import Hint, Isolation, Transaction
from evertick.store.unit_of_work import UnitOfWork

_logger: Final = logging.getLogger("evertick.engine")

CONFLICT_BACKOFF: Final = RetryPolicy(attempts_max=1_000, first_ms=5, factor=2.0, cap_ms=1_000, jitter=0.5)
"""Waits between runs of a mutation that meets conflicts. There is no last one: internal errors are retried for ever."""


BATCHES_IN_A_ROW: Final = 8
"""Batches that are run one after another while they are full, before the loop sees to other things."""
STILL_WAITING_MS: Final = SECOND_MS
"""While a suspect waits for actions to end: time between two looks whether another worker has taken it."""


class _Taken(WriteConflict):
    """One of the batch's jobs is not held any more."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """Claims that must be run again: together, or (after a conflict) in smaller batches."""

    claims: list[Claim]
    together: bool


class _Result(NamedTuple):
    claim: Claim
    end: JobEnd
    started_at: Instant


class _Batch:
    """Mutations that run in one transaction, and what is written of their ends so far."""

    def __init__(self, transaction: Transaction, worker_id: WorkerId, clock: Clock, ids: IdMaker) -> None:
        self.unit = UnitOfWork(transaction, settle=self.settle)
        self.results: list[_Result] = []
        self._transaction = transaction
        self._worker_id = worker_id
        self._clock = clock
        self._ids = ids
        self._settled = 0
        self._taken = False

    def settle(self) -> None:
        """Write the ends that are not written yet: a later mutation is about to look at the database.

        Raises _Taken if a job is not held any more, and again from then on: a function may have caught the first.
        """
        if self._taken:
            raise _Taken
        results = self.results[self._settled :]
        if not results:
            return
        self._settled = len(self.results)
        held = finish(
            self._transaction,
            {result.claim.id: result.claim for result in results},
            [result.end for result in results],
            worker_id=self._worker_id,
            now=self._clock.now(),
            make_id=self._ids.make,
        )
        if len(held) < len(results):
            self._taken = True
            raise _Taken
        self._transaction.insert_jobs(self.unit.take_successors())

    def finish(self) -> list[_Result]:
        """Write everything that waits, and the ends with it."""
        self.unit.flush()
        self.settle()
        self.unit.close()
        return self.results


class MutationLoop(Loop):
    """Runs due mutations."""

    name = "mutations"
    hears = frozenset({Hint.MUTATION})

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
        actions: ActionLoop,
        claims_ahead: bool,
    ) -> None:
        super().__init__(clock, poll_ms=settings.poll_ms)
        self._lanes = lanes
        self._runner = runner
        self._ids = ids
        self._entropy = entropy
        self._settings = settings
        self._counters = counters
        self._worker_id = worker_id
        self._rotation = Rotation(FunctionKind.MUTATION, settings.tenants)
        self._abandoned = Abandoned(lanes, clock, settings, counters, runner, FunctionKind.MUTATION)
        self._actions = actions
        self._actions.on_still = self.poke
        self._failures = 0
        self._claims_ahead = claims_ahead
        self._swift = False

    async def round(self) -> Instant | None:
        """Claim a batch of due mutations, run them, write their ends; then a suspect, if it may run."""
        worker_id = self._worker_id()
        if worker_id is None:
            return None  # whoever gives us an identity again will poke
        found = await self._abandoned.look(worker_id)
        if found:
            await self._run_found(found, worker_id)
            return self._clock.now()
        claimed = await self._run_due(worker_id)
        if claimed.suspect_is_due is None:
            return claimed.next_due_at
        if not claimed.suspect_is_due:
            self._actions.resume()
            return claimed.next_due_at
        if not self._actions.pause():
            look_at = Instant(self._clock.now() + STILL_WAITING_MS)
            return look_at if claimed.next_due_at is None else min(claimed.next_due_at, look_at)
        await self._run_suspect(worker_id)
        return self._clock.now()

    async def _run_due(self, worker_id: WorkerId) -> Claimed:
        """Claim due mutations and run them, a few batches while they are full.

        Answers the last claim, with what the last look at suspects saw.
        """
        claimed, running = await self._claim_and_run(worker_id)
        suspect_is_due = claimed.suspect_is_due
        for _ in range(BATCHES_IN_A_ROW):
            if running is not None or not self._claims_more(claimed, worker_id):
                break
            # While the database works on the claim of the next batch, this process works on the functions of this one.
            ahead = asyncio.create_task(self._claim(worker_id))
            try:
                await self._run_to_the_end(claimed.claims, worker_id)
            except BaseException:
                ahead.cancel()
                raise
            claimed = await ahead
            if claimed.suspect_is_due is not None:  # the last claim need not be one that looked
                suspect_is_due = claimed.suspect_is_due
        await self._run_to_the_end(claimed.claims, worker_id, running)
        return replace(claimed, suspect_is_due=suspect_is_due)

    def _claims_more(self, claimed: Claimed, worker_id: WorkerId) -> bool:
        worth_it = self._claims_ahead and self._swift and len(claimed.claims) == self._settings.batch
        # Under an identity whose lease was lost, whatever is claimed is taken away at once, and counts a crash.
        return worth_it and not self.stopping and worker_id == self._worker_id()

    async def _run_found(self, found: list[Claim], worker_id: WorkerId) -> None:
        """Run what was claimed and not heard of, but give suspects back: they are claimed again when they may run."""
        suspects = [claim for claim in found if claim.crashes >= SUSPECT_CRASHES]
        if suspects:
            await self._release(suspects, worker_id)
        await self._run_to_the_end([claim for claim in found if claim.crashes < SUSPECT_CRASHES], worker_id)

    async def _run_suspect(self, worker_id: WorkerId) -> None:
        """Claim a suspect and run it: nothing else is held in this process."""

        def work(transaction: Transaction) -> Claimed:
            now = self._clock.now()
            return claim_suspect(
                transaction, kind=FunctionKind.MUTATION, worker_id=worker_id, runner=self._runner, now=now
            )

        if worker_id != self._worker_id():
            return
        with self._abandoned.watching():
            claimed = await self._lanes.write(work, isolation=Isolation.EACH)
        self._counters.add("jobs_blocked", claimed.blocked)
        await self._run_to_the_end(claimed.claims, worker_id)

    async def _release(self, claims: list[Claim], worker_id: WorkerId) -> None:
        def work(transaction: Transaction) -> None:
            for claim in claims:
                transaction.release_job(claim.id, worker_id=worker_id, attempt=claim.attempt)

        with self._abandoned.watching():
            await self._lanes.write(work, isolation=Isolation.READ_COMMITTED)

    async def _claim(self, worker_id: WorkerId) -> Claimed:
        with self._abandoned.watching():
            claimed = await self._lanes.write(self._claiming(worker_id), isolation=Isolation.RELAXED)
        self._counters.add("jobs_blocked", claimed.blocked)
        return claimed

    async def _claim_and_run(self, worker_id: WorkerId) -> tuple[Claimed, Awaitable[list[_Result]] | None]:
        """Claim a batch and run it at once, unless the next is to be claimed meanwhile: then it is only claimed."""

        def then(claimed: Claimed) -> Callable[[Transaction], list[_Result]] | None:
            if not claimed.claims or self._claims_more(claimed, worker_id):
                return None
            return lambda transaction: self._run_batch(transaction, claimed.claims, worker_id)

        with self._abandoned.watching():
            claimed, running = await self._lanes.write_two(self._claiming(worker_id), then, isolation=Isolation.RELAXED)
        self._counters.add("jobs_blocked", claimed.blocked)
        return claimed, running

    def _claiming(self, worker_id: WorkerId) -> Callable[[Transaction], Claimed]:
        return lambda transaction: claim_due(
            transaction,
            kind=FunctionKind.MUTATION,
            worker_id=worker_id,
            runner=self._runner,
            now=self._clock.now(),
            limit=self._settings.batch,
            rotation=self._rotation,
        )

    async def _run_to_the_end(
        self, claims: list[Claim], worker_id: WorkerId, running: Awaitable[list[_Result]] | None = None
    ) -> None:
        """Run claimed mutations until the end of each is written. While the database is away, wait and go on.

        `running` is the first attempt, if it was begun already.

        A batch that cannot be committed together is halved, and halved again: so the one mutation that stands in the
        way of the others is found in a few commits, and the others still share theirs.
        """
        batches = [claims] if claims else []
        while batches:
            batch = batches.pop()
            rest = await (self._attempt(batch, worker_id) if running is None else self._rest(batch, worker_id, running))
            running = None
            if rest.together and rest.claims:
                batches.append(rest.claims)
            elif len(rest.claims) == 1:
                await self._run_alone(rest.claims[0], worker_id)
            elif rest.claims:
                middle = len(rest.claims) // 2
                batches += [rest.claims[middle:], rest.claims[:middle]]

    async def _run_alone(self, claim: Claim, worker_id: WorkerId) -> None:
        failures = 0
        while (await self._attempt([claim], worker_id, again=True)).claims:
            failures += 1
            await asyncio.sleep(retry_delay_ms(failures, CONFLICT_BACKOFF, self._entropy) / 1000)

    async def _attempt(self, claims: list[Claim], worker_id: WorkerId, *, again: bool = False) -> _Rest:
        """Run claims in one commit; answers those that must be run again.

        `again`: one that is tried alone after it could not be committed, so first see whether it is still held.
        """
        running = self._lanes.write(lambda transaction: self._run_batch(transaction, claims, worker_id, again=again))
        return await self._rest(claims, worker_id, running)

    async def _rest(self, claims: list[Claim], worker_id: WorkerId, running: Awaitable[list[_Result]]) -> _Rest:
        """What is left of claims after an attempt to run them in one commit."""
        alone = len(claims) == 1
        try:
            results = await running
        except _Taken:
            self._counters.add("mutations_taken")
            return _Rest([] if alone else claims, together=False)
        except Conflict as error:
            self._counters.add("mutation_conflicts")
            if alone:
                _logger.info("%s met a conflict and will be retried: %s", claims[0].name, error,
                             extra={"job_id": claims[0].id, "will_retry": True})  # fmt: skip
            return _Rest(claims, together=False)
        except Unavailable as error:
            self._counters.add("outcomes_unknown" if isinstance(error, OutcomeUnknown) else "database_unavailable")
            _logger.warning("mutations: %s; looking up what became of %d jobs", error, len(claims))
            # What does not commit but can be read (a full disk, say) must not make us spin.
            self._failures += 1
            await asyncio.sleep(retry_delay_ms(self._failures, CONFLICT_BACKOFF, self._entropy) / 1000)
            return _Rest(await self._still_held(claims, worker_id), together=not alone)
        self._failures = 0
        now = self._clock.now()
        self._counters.jobs_ended([JobEnded(r.claim, r.end, r.started_at, now) for r in results])
        done = {result.claim.id for result in results}
        self._swift = len(done) == len(claims)
        return _Rest([claim for claim in claims if claim.id not in done], together=True)

    def _run_batch(
        self, transaction: Transaction, claims: list[Claim], worker_id: WorkerId, *, again: bool = False
    ) -> list[_Result]:
        if again:
            claim = claims[0]
            if not transaction.is_held(claim.id, worker_id=worker_id, attempt=claim.attempt):
                raise _Taken
        batch = _Batch(transaction, worker_id, self._clock, self._ids)
        begun_at = self._clock.now()
        for claim in claims:
            now = self._clock.now()
            if now - begun_at > self._settings.batch_ms and batch.results:
                break
            ran = self._runner.run_mutation(batch.unit, claim, now=now)
            end = ended(claim, ran.outcome, now=now, entropy=self._entropy, logs=ran.logs)
            batch.results.append(_Result(claim, end, now))
        return batch.finish()

    async def _still_held(self, claims: list[Claim], worker_id: WorkerId) -> list[Claim]:
        """Which claims are still ours to run, asked until the database answers."""

        def work(transaction: Transaction) -> list[Claim]:
            return [c for c in claims if transaction.is_held(c.id, worker_id=worker_id, attempt=c.attempt)]

        failures = 0
        while True:
            try:
                return await self._lanes.write(work, isolation=Isolation.READ_COMMITTED)
            except (Unavailable, Conflict):
                failures += 1
                await asyncio.sleep(retry_delay_ms(failures, CONFLICT_BACKOFF, self._entropy) / 1000)
