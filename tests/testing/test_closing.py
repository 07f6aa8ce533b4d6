"""Closing a world: the test's own error stays on top, and the app can be used in the next world."""

from typing import Any

import pytest

from evertick import App, MutationCtx
from evertick.base.errors import DatabaseUnavailable, Misuse
from evertick.testing import World
from evertick.testing.store import WorldStore

app = App("closing")


@app.mutation
def note(ctx: MutationCtx) -> None: ...


def locked(store: WorldStore, now: Any) -> None:
    raise DatabaseUnavailable("another connection holds the write lock")


def test_an_open_transaction_is_the_error_and_the_app_leaves_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction is open, the worker cannot be ended. That hides neither the cause nor the next world."""
    with monkeypatch.context() as patch:
        patch.setattr(WorldStore, "end_leases", locked)
        with pytest.raises(Misuse, match="commit it or roll it back") as raised, World(app) as world:
            connection = world.connect()
            connection.execute("create table orders (id)")
            app.bind(connection).run_after(1, note)
            world.advance(5)
    connection.close()

    assert raised.value.__notes__ == ["closing the world failed too: another connection holds the write lock"]
    with World(app) as world:
        job = app.scheduler.enqueue(note)
        world.drain()
        assert world.job(job).state == "success"


def test_a_world_that_cannot_be_closed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorldStore, "end_leases", locked)

    with pytest.raises(DatabaseUnavailable, match="write lock"), World(app):
        pass
