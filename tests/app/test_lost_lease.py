"""A worker whose lease was given away while it works: what it does under the identity that is gone."""

from typing import Any

import pytest

from evertick import App, MutationCtx
from evertick.app.execution import Execution
from evertick.base.ids import WorkerId
from evertick.engine import mutations
from evertick.engine.claims import Claimed
from evertick.engine.settings import Settings
from evertick.engine.worker import Worker
from evertick.testing.loop import JumpingLoop
from tests.app.engine import SharedStore, run_for

JOBS = 40
LOST_AT = 4
"""In the midst of batches that are run one after another."""


class UntendedLease:
    """A lease that nobody renews, and that is lost when the test says so."""

    def __init__(self, *args: object, **options: object) -> None:
        """Nothing is needed."""

    def start(self) -> None:
        """See `Lease.start`."""

    def stop(self) -> None:
        """See `Lease.stop`."""


def test_nothing_more_is_claimed_under_an_identity_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real once: full batches went on being claimed ahead, and each was taken away and counted a crash."""
    store, loop, ran = SharedStore("sqlite://"), JumpingLoop(), []
    store.migrate()
    app = App("lost", settings=Settings(batch=1))
    claimed_by: list[WorkerId] = []
    claim_due = mutations.claim_due

    def noting(*args: Any, worker_id: WorkerId, **options: Any) -> Claimed:
        claimed_by.append(worker_id)
        return claim_due(*args, worker_id=worker_id, **options)

    monkeypatch.setattr(mutations, "claim_due", noting)

    @app.mutation(name="count")
    def count(ctx: MutationCtx, number: int) -> None:
        ran.append(number)
        if len(ran) == LOST_AT:
            claimed_by.clear()
            worker.lease_lost()

    e = app.open_on(store, inline=True)
    app.scheduler.run_after_many(0, [count.args(number) for number in range(JOBS)])
    worker = Worker(
        store, e.lanes, e.clock, Execution(e), e.ids, e.entropy, e.settings, app.counters, make_lease=UntendedLease
    )
    lost_id = worker._worker_id

    run_for(loop, worker, 10)

    assert sorted(ran) == list(range(JOBS))
    assert claimed_by.count(lost_id) <= 1  # that one was under way
    assert len(claimed_by) > JOBS - LOST_AT
    loop.close()
    app.close()
