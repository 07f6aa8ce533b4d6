"""Actions that a worker has begun, until their ends are written."""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, JobEnd
from evertick.engine.runtime.runner import RunningAction
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES


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
