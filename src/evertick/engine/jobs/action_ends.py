"""How actions ended: written in batches by a loop of its own.

While the database is away the ends wait, and their functions are not run again.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import JobId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import Raised
from evertick.base.records.jobs import Claim, JobEnd
from evertick.base.records.stored import storable
from evertick.engine.jobs.completion import finish
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.metrics import JobEnded
from evertick.engine.runtime.runner import RunningAction
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES, ended
from evertick.store.contract.store import Isolation, Transaction

_logger: Final = logging.getLogger("evertick.engine")

ENDS_MAX: Final = 500
"""Ends written in one transaction."""


@dataclass(slots=True, eq=False)
class BegunAction:
    """An action that was begun and whose end is not written yet."""

    claim: Claim
    worker_id: WorkerId
    started_at: Instant
    control: RunningAction
    task: asyncio.Task[None]
    is_canceled: bool = False
    """Whether its job was canceled, and not only its worker is about to end."""
    has_ended: bool = False

    @property
    def is_suspect(self) -> bool:
        """Whether too many workers have died while they held it."""
        return self.claim.crashes >= SUSPECT_CRASHES


class EndedAction(NamedTuple):
    running: BegunAction
    end: JobEnd


class ActionEnds(Loop):
    """Writes how actions ended. An end leaves the list only when it is written."""

    name = "action ends"

    def __init__(self, deps: EngineDeps, *, on_written: Callable[[BegunAction, JobEnd], None]) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll_ms)
        self._on_written = on_written
        self._waiting: list[EndedAction] = []
        self._at_a_time = ENDS_MAX

    def add(self, ended: EndedAction) -> None:
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

        # READ COMMITTED: every row is named by its id and fenced. If the reply is lost, writing again is harmless:
        # what was written is no longer held, so it changes nothing and is followed by nothing.
        try:
            held = await self._deps.executors.write(work, isolation=Isolation.READ_COMMITTED)
        except (Unavailable, Conflict):
            raise
        except Exception as error:
            self._set_aside(batch, error)
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

    def _set_aside(self, batch: list[EndedAction], error: Exception) -> None:
        """The engine failed in a way that it does not know: find the end that it failed at, and write a plain one."""
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
