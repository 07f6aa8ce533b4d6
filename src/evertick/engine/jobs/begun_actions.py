"""Actions that a worker has begun, until their ends are written."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import Outcome
from evertick.base.records.jobs import Claim, JobEnd
from evertick.base.records.logs import LogLine
from evertick.base.step_limit import Held
from evertick.engine.runtime.runner import RunningAction
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES
from evertick.store.transaction.transaction import Transaction


class Owner(Protocol):
    """The loop that begins actions."""

    def finish(
        self, running: "BegunAction", transaction: Transaction, outcome: Outcome, logs: Sequence[LogLine],
        again_at: Instant | None = None,
    ) -> JobEnd | None: ...  # fmt: skip
    def note_stuck(self, running: "BegunAction") -> None: ...
    def say_held(self, running: "BegunAction", held: Held) -> None: ...


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

    def on_held(self, held: Held) -> None:
        self._owner.say_held(self, held)

    @property
    def is_suspect(self) -> bool:
        """Whether too many workers have died while they held it."""
        return self.claim.crashes >= SUSPECT_CRASHES


class EndedAction(NamedTuple):
    running: BegunAction
    end: JobEnd
