"""While more is due than a page takes, two pages are under way where several transactions may write."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evertick import App, MutationCtx, every
from evertick.base.errors import WriteConflict
from evertick.engine.schedules import evaluator as evaluator_module
from evertick.engine.schedules.evaluator import PAGES_AT_ONCE, Evaluator
from tests.schedules.conftest import SetClock

PAGE = 3
DUE = 12


@pytest.fixture
def app(open_app: Callable[..., App], clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> App:
    """An app with `DUE` schedules that are due; an evaluator's page takes `PAGE` of them."""
    monkeypatch.setattr(evaluator_module, "PAGE", PAGE)
    app = open_app()
    app.migrate()

    @app.mutation
    def tick(ctx: MutationCtx) -> None:
        pass

    for number in range(DUE):
        app.schedules.create(f"s{number}", when=every(seconds=1), do=tick)
    clock.advance(timedelta(seconds=1))
    return app


def evaluator_of(app: App) -> Evaluator:
    return Evaluator(app.environment.engine_deps(app._execution, app.counters))


def started(app: App) -> int:
    return app.environment.store.read(
        lambda tx: int(tx.connection.execute("select count(*) from occurrences").fetchone()[0])
    )


async def rounds(evaluator: Evaluator, count: int) -> None:
    for _ in range(count):
        await evaluator.round()


def test_two_pages_are_under_way_while_more_is_due(app: App, clock: SetClock) -> None:
    pages = 1 if app.environment.store.single_engine else PAGES_AT_ONCE
    evaluator = evaluator_of(app)

    asyncio.run(rounds(evaluator, 1))
    assert started(app) == PAGE  # only then it is known that there is more
    asyncio.run(rounds(evaluator, 1))
    assert started(app) == PAGE * (1 + pages)
    asyncio.run(rounds(evaluator, 5))
    assert started(app) == DUE
    clock.advance(timedelta(seconds=1))
    asyncio.run(rounds(evaluator, 1))
    assert started(app) == DUE + PAGE


def test_a_page_that_fails_takes_nothing_from_the_one_beside_it(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    if app.environment.store.single_engine:
        pytest.skip("one page at a time")
    evaluator, page = evaluator_of(app), Evaluator._page
    asyncio.run(rounds(evaluator, 1))
    fails = iter([True])

    def failing(self: Evaluator, transaction: Any) -> Any:
        done = page(self, transaction)
        if next(fails, False):
            raise WriteConflict("a schedule was changed since it was read")
        return done

    monkeypatch.setattr(Evaluator, "_page", failing)
    with pytest.raises(WriteConflict):
        asyncio.run(rounds(evaluator, 1))

    assert started(app) == 2 * PAGE
    assert app.counters.snapshot()["occurrences_started"] == 2 * PAGE
    asyncio.run(rounds(evaluator, 5))
    assert started(app) == DUE
