"""A worker whose lease was given away while it works: what it does under the identity that is gone."""

from typing import Any

import pytest

from evertick import App, MutationCtx
from evertick.base.ids import WorkerId
from evertick.engine.jobs.claims import Claimed, Claims
from evertick.engine.runtime.settings import Settings
from evertick.store.transaction.transaction import Transaction
from evertick.testing.loop import JumpingLoop
from tests.app.engine import SharedStore, run_for, worker_of

JOBS = 40
LOST_AT = 4
"""In the midst of batches that are run one after another."""


class UntendedHeartbeat:
    """A lease that nobody renews, and that is lost when the test says so."""

    def __init__(self, *args: object, **options: object) -> None:
        """Nothing is needed."""

    def start(self) -> None:
        """See `Heartbeat.start`."""

    def stop(self) -> None:
        """See `Heartbeat.stop`."""


def test_nothing_more_is_claimed_under_an_identity_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real once: full batches went on being claimed ahead, and each was taken away and counted a crash."""
    store, loop, ran = SharedStore("sqlite://"), JumpingLoop(), []
    store.migrate()
    app = App("lost", settings=Settings(batch=1))
    claimed_by: list[WorkerId | None] = []
    lost: list[WorkerId | None] = []
    due = Claims.claim_due

    def noting(self: Claims, transaction: Transaction, worker_id: WorkerId, **options: Any) -> Claimed:
        claimed_by.append(worker_id)
        return due(self, transaction, worker_id, **options)

    monkeypatch.setattr(Claims, "claim_due", noting)

    @app.mutation(name="count")
    def count(ctx: MutationCtx, number: int) -> None:
        ran.append(number)
        if len(ran) == LOST_AT:
            lost.append(worker.registration.current_id())
            claimed_by.clear()
            worker.registration.lost()

    app.open_on(store, inline=True)
    app.scheduler.run_after_many(0, [count.with_args(number) for number in range(JOBS)])
    worker = worker_of(app, make_heartbeat=UntendedHeartbeat)

    run_for(loop, worker, 10)

    assert sorted(ran) == list(range(JOBS))
    assert claimed_by.count(lost[0]) <= 1  # that one was under way
    assert len(claimed_by) > JOBS - LOST_AT
    loop.close()
    app.close()
