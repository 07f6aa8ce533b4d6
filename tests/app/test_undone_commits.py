"""What actions make of a failover that has undone commits, and of an old primary that does not know of it."""

import asyncio
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

import pytest

from evertick import ActionCtx, App
from evertick.base.errors import DatabaseUnavailable
from evertick.base.records.jobs import FunctionKind
from evertick.engine.jobs import actions
from evertick.engine.jobs.claims import Claims
from evertick.engine.runtime.executors import InlineExecutors, Work
from evertick.engine.runtime.registration import renew
from evertick.engine.runtime.settings import Settings
from evertick.store.sqlite.store import SqliteStore
from evertick.store.sqlite.transaction import SqliteTransaction
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from evertick.testing.loop import JumpingLoop
from tests.app.engine import LoopClock, job_of, run_for, worker_of
from tests.store.rows import ANN, claim_one, end_of, finish

T = TypeVar("T")
A_MINUTE_S: Final = 60.0
CLAIM: Final = "ActionLoop._claim_and_start"
END: Final = "ActionEnds.round"


class Undone(Exception):
    """Instead of a commit."""


class First(InlineExecutors):
    """Executors on which something else becomes of the first write of one kind that finds anything."""

    def __init__(self, store: Store, label: str, instead: Callable[[Store, Work[Any]], Any]) -> None:
        super().__init__(store)
        self._store = store
        self._label = label
        self._instead = instead
        self.struck = False

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Executors.write`."""
        if self.struck or not work.__qualname__.startswith(self._label):
            return await super().write(work, isolation=isolation)
        self.struck = True
        return self._instead(self._store, work)  # type: ignore[no-any-return]


def undone(store: Store, work: Work[T]) -> T:
    """The result of a commit that is undone."""
    results: list[T] = []

    def undo(transaction: Transaction) -> None:
        results.append(work(transaction))
        raise Undone

    with suppress(Undone):
        store.write(undo)
    return results[0]


def of_an_old_primary(store: Store, work: Work[T]) -> T:
    """What is said by a database on which nothing of what happened is there, and nothing can be committed."""
    with closing(SqliteStore("sqlite://")) as old, pytest.MonkeyPatch.context() as patch:
        old.migrate()
        patch.setattr(SqliteTransaction, "confirm", refuse)
        return old.write(work)


def refuse(transaction: object) -> None:
    """Commit nothing."""
    raise DatabaseUnavailable("the connection was cut off")


def run_one_action(
    label: str, instead: Callable[[Store, Work[Any]], Any], *, takes_s: float = 0.0
) -> tuple[int, str, str]:
    """How often an action was called, and how its job ended, when something becomes of the first write of one kind."""
    store, loop, calls = SqliteStore("sqlite://"), JumpingLoop(), []
    store.migrate()
    app = App("undone", settings=Settings(lease=timedelta(seconds=3)))

    @app.action(name="act")
    async def act(ctx: ActionCtx) -> None:
        calls.append(ctx.attempt)
        await asyncio.sleep(takes_s)

    environment = app.open_on(store, inline=True)
    job_id = app.scheduler.run_after(0, act)
    executors, clock = First(store, label, instead), LoopClock(loop, environment.clock.now())
    run_for(loop, worker_of(app, executors=executors, clock=clock), A_MINUTE_S)
    loop.close()
    assert executors.struck
    job = job_of(app, job_id)
    app.close()
    return len(calls), job.state, str(job.error)


def test_an_action_whose_end_was_undone_by_a_failover_is_not_begun_again() -> None:
    calls, state, error = run_one_action(END, undone)

    assert (calls, state) == (1, "failed")
    assert error.startswith("LostWorker")


@pytest.mark.parametrize("takes_s", [0.0, 5.0])
def test_an_action_whose_claim_was_undone_by_a_failover_is_claimed_anew_and_not_begun_again(takes_s: float) -> None:
    assert run_one_action(CLAIM, undone, takes_s=takes_s) == (1, "success", "None")


def test_an_end_that_an_old_primary_knows_nothing_of_is_written_to_the_new_one() -> None:
    assert run_one_action(END, of_an_old_primary) == (1, "success", "None")


def test_of_many_attempts_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "BEGUN_MAX", 3)
    app, store = App("many"), SqliteStore("sqlite://")
    store.migrate()
    environment = app.open_on(store, inline=True)
    loop = actions.ActionLoop(environment.engine_deps(app._execution, app.counters), worker_id=lambda: ANN)
    for number in range(10):
        loop._remember((f"job_{number}", 1))  # type: ignore[arg-type]
    assert [job_id for job_id, _ in loop._begun] == ["job_7", "job_8", "job_9"]
    app.close()


def test_a_lease_that_an_old_primary_does_not_know_is_not_lost() -> None:
    app = App("lease")
    store = SqliteStore("sqlite://")
    store.migrate()
    deps = app.open_on(store, inline=True).engine_deps(app._execution, app.counters)
    assert renew(deps, ANN) is False
    with pytest.MonkeyPatch.context() as patch, pytest.raises(DatabaseUnavailable):
        patch.setattr(SqliteTransaction, "confirm", refuse)
        renew(deps, ANN)
    app.close()


def test_what_only_an_old_primary_says_is_held_is_not_run() -> None:
    old, new = (SqliteStore("sqlite://") for _ in range(2))
    for each in (old, new):
        each.migrate()
        claimed = claim_one(each, kind=FunctionKind.ACTION)
    finish(new, end_of(claimed))

    class ReadsOfBefore(InlineExecutors):
        async def read(self, work: Work[T]) -> T:
            return old.read(work)

    app = App("held", settings=Settings(lease=timedelta(0)))
    app.open_on(new, inline=True)
    deps = worker_of(app, executors=ReadsOfBefore(new))._deps
    assert asyncio.run(Claims(deps, FunctionKind.ACTION).lost(ANN)) == []
    app.close()
    old.close()
