"""Held loops: says which action holds the event loop of its worker. It is called in a thread of its own: nothing that
runs on the loop goes on meanwhile.

An action that runs long without an await is interrupted (`evertick.base.step_limit`), unless it waits inside C code.
Its worker is alive all the same, and renews its lease: no other worker runs the action.
"""

import logging
import time
from typing import Final

from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import WorkerId
from evertick.base.outcomes import STUCK
from evertick.base.records.jobs import JOB_ERROR, Claim, JobError
from evertick.base.step_limit import Held
from evertick.engine.runtime.deps import EngineDeps
from evertick.store.store import Isolation

_logger: Final = logging.getLogger("evertick.engine")

TRIES_MAX: Final = 10
"""How often it is tried to write down what is stuck, while the database is away."""
PAUSE_S: Final = 1.0


def say_held(deps: EngineDeps, claim: Claim, worker_id: WorkerId, held: Held) -> None:
    """Log it; and note it at the job if the action goes on although it was interrupted."""
    if not held.is_stuck:
        _logger.warning("%s has not awaited for %.0f s and holds the event loop of its worker, at %s", claim.name,
                        held.seconds, held.where, extra={"job_id": claim.id})  # fmt: skip
        return
    _logger.error("%s holds the event loop of its worker although it was interrupted, at %s; no async action starts "
                  "until it ends", claim.name, held.where, extra={"job_id": claim.id})  # fmt: skip
    deps.counters.add("actions_stuck")
    words = (
        f"it was interrupted, because it did not await, and goes on at {held.where}: it waits inside C code or catches "
        "the interruption; until it ends, it holds the event loop of its worker, and no other async action starts there"
    )
    error = JOB_ERROR.value(JobError(STUCK, words))
    for _ in range(TRIES_MAX):
        try:
            deps.store.write(
                lambda transaction: transaction.note_error(claim.id, error, worker_id=worker_id, attempt=claim.attempt),
                isolation=Isolation.READ_COMMITTED,
            )
            return
        except (Unavailable, Conflict) as problem:
            _logger.debug("%s: that it is stuck could not be written: %s", claim.name, problem)
            time.sleep(PAUSE_S)
