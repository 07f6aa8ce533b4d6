"""Cancellation: tells running actions that their job was canceled, and writes down which of them do not end.

A request is kept in the job's row. While actions run, this loop looks for requests at every notification, and once a
second in case that one is lost. An `async def` action gets a `CancelledError` at its next await and may clean up; a
plain `def` sees `ctx.cancel_requested`. A forced stop interrupts either until it has ended. The job is in progress
until then.
"""

from typing import Final

from evertick.base.instants import Instant
from evertick.base.outcomes import STUCK
from evertick.base.records.jobs import JOB_ERROR, JobError
from evertick.engine.jobs.actions import ActionLoop
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.store.notifications import Notification
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

LOOKS_PER_POLL: Final = 5
"""How often it looks for requests while actions run, in the time in which other loops look once: every second, usually.
"""
STUCK_ERROR: Final = JobError(
    STUCK,
    "it was interrupted, because its time is over or it was stopped, and goes on: it catches the interruption or waits "
    "inside C code; it keeps its slot until it ends",
)


class CancellationLoop(Loop):
    """Looks for requests to stop."""

    name = "cancellation"
    subscribes = frozenset({Notification.STOP})

    def __init__(self, deps: EngineDeps, actions: ActionLoop) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll_ms)
        self._look_every_ms = max(1, deps.settings.poll_ms // LOOKS_PER_POLL)
        self._actions = actions
        self._actions.on_stuck = self.poke

    async def round(self) -> Instant | None:
        """Tell the actions that were asked to stop, note those that do not; look again soon while any run."""
        running = self._actions.running_ids()
        if not running:
            return None
        await self._note_stuck()
        asked = await self._deps.executors.read(lambda transaction: transaction.stops_asked(running))
        for job_id, stop in asked.items():
            self._actions.stop_running(job_id, stop)
        return Instant(self._deps.clock.now() + self._look_every_ms)

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
