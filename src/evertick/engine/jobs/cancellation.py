"""Cancellation: stops running actions whose job was asked to stop, or terminated.

A request is kept in the job's row. While actions run, this loop looks for requests once a second and at every
notification, and cancels the action's task: the function meets `CancelledError` at its next await and may clean up. A
plain `def` action cannot be interrupted; its job ends all the same.
"""

from typing import Final

from evertick.base.instants import SECOND_MS, Instant
from evertick.engine.jobs.actions import ActionLoop
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.store.contract.notifications import Notification

LOOK_EVERY_MS: Final = SECOND_MS
"""Time between two looks for requests while actions run."""


class CancellationLoop(Loop):
    """Looks for requests to stop."""

    name = "cancellation"
    subscribes = frozenset({Notification.STOP})

    def __init__(self, deps: EngineDeps, actions: ActionLoop) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll_ms)
        self._actions = actions

    async def round(self) -> Instant | None:
        """Cancel the tasks of actions that were asked to stop; look again soon while any run."""
        running = self._actions.running_ids()
        if not running:
            return None
        asked = await self._deps.executors.read(lambda transaction: transaction.stops_asked(running))
        for job_id, urgency in asked.items():
            self._actions.stop_running(job_id, urgency)
        return Instant(self._deps.clock.now() + LOOK_EVERY_MS)
