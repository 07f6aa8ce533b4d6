"""Stops: tells running actions that they were asked to stop, or that their job was terminated.

A request lies in the job's row, whoever made it. While actions run, this loop looks for requests once a second and at
every hint, and cancels the action's task: the function meets `CancelledError` at its next await and may clean up. A
plain `def` action cannot be interrupted; its job ends all the same.
"""

from typing import Final

from evertick.base.clock import Clock
from evertick.base.instants import SECOND_MS, Instant
from evertick.engine.actions import ActionLoop
from evertick.engine.lanes import Lanes
from evertick.engine.loops import Loop
from evertick.engine.settings import Settings
from evertick.store.contract import Hint

LOOK_EVERY_MS: Final = SECOND_MS


class StopLoop(Loop):
    """Looks for requests to stop."""

    name = "stops"
    hears = frozenset({Hint.STOP})

    def __init__(self, lanes: Lanes, clock: Clock, settings: Settings, actions: ActionLoop) -> None:
        super().__init__(clock, poll_ms=settings.poll_ms)
        self._lanes = lanes
        self._actions = actions

    async def round(self) -> Instant | None:
        """Cancel the tasks of actions that were asked to stop; look again soon while any run."""
        running = self._actions.running_ids()
        if not running:
            return None
        asked = await self._lanes.read(lambda transaction: transaction.stops_asked(running))
        for job_id, urgency in asked.items():
            self._actions.stop_running(job_id, urgency)
        return Instant(self._clock.now() + LOOK_EVERY_MS)
