"""Turns: who writes much keeps nobody away, and who waits for itself is told."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from evertick import ActionCtx, App, MutationCtx
from evertick.errors import DatabaseUnavailable
from evertick.functions import JobState
from evertick.store.postgres.address import PostgresAddress
from evertick.store.sqlite import store as sqlite_store
from evertick.store.sqlite.store import TurnLock
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine


def test_a_lock_is_given_in_the_order_of_asking() -> None:
    lock, order = TurnLock(), list[int]()
    assert lock.acquire(0)
    assert not lock.acquire(0)

    def wait(number: int) -> None:
        assert lock.acquire(PATIENCE_S)
        order.append(number)
        lock.release()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(5)]
    for number, thread in enumerate(threads):
        thread.start()
        while len(lock._waiting) <= number:
            pass
    lock.release()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert order == [0, 1, 2, 3, 4]
    assert lock.acquire(0)


@pytest.mark.long
def test_an_action_that_gathers_thousands_of_mutations_delays_no_other(open_app: OpenApp) -> None:
    app = open_app()
    written: list[int] = []
    begun = threading.Event()

    @app.mutation(name="write")
    def write(ctx: MutationCtx, n: int) -> None:
        written.append(n)
        if len(written) > 20:
            begun.set()

    @app.action(name="greedy")
    async def greedy(ctx: ActionCtx) -> None:
        await asyncio.gather(*(ctx.run_mutation(write, n) for n in range(1_000)))

    @app.action(name="modest")
    async def modest(ctx: ActionCtx) -> int:
        await ctx.run_mutation(write, -1)
        return len(written)

    with Engine(app) as engine:
        busy = app.scheduler.run_after(0, greedy)
        assert begun.wait(PATIENCE_S)
        before = len(written)
        job = engine.wait(app.scheduler.run_after(0, modest))
        assert job.state is JobState.SUCCESS
        assert job.result - before < 900
        assert engine.wait(busy).state is JobState.SUCCESS


@pytest.fixture
def waiting_shortly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sqlite_store, "TURN_WAIT_S", 0.05)
    yield


def test_a_mutation_that_waits_for_a_thread_that_writes_is_told(tmp_path: object, waiting_shortly: None) -> None:
    """Real once: both waited for ever, and with them every mutation of the process."""
    app = App("waits", database_url=f"sqlite:///{tmp_path}/w.db")
    app.migrate()
    errors: list[BaseException] = []

    @app.mutation(name="inner")
    def inner(ctx: MutationCtx) -> None:
        """Nothing."""

    @app.mutation(name="outer")
    def outer(ctx: MutationCtx) -> str:
        def call() -> None:
            try:
                app.call(inner)
            except DatabaseUnavailable as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join(PATIENCE_S)
        return "done"

    assert app.call(outer) == "done"
    assert "waits for itself" in str(errors[0])
    app.call(inner)
    app.close()


def test_options_in_an_address_are_added_to_evertick_s_own() -> None:
    address = PostgresAddress("postgresql://h/d?options=-c%20work_mem%3D8MB%20-c%20lock_timeout%3D3s")
    conninfo = address.conninfo(pooled=False)
    assert "client_min_messages%3Dnotice%20-c%20work_mem%3D8MB%20-c%20lock_timeout%3D3s%20-c%20default_" in conninfo
    through = PostgresAddress("postgresql://h/d?options=-c%20work_mem%3D8MB").conninfo(pooled=True)
    assert "seqscan" not in through
    assert "work_mem" in through
