"""Pools declared in code: a worker writes their limits when the declaration changes, and their actions are retried."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry, Step, every
from evertick.base.errors import Conflict, Misuse, NotFound, RegistrationError
from evertick.base.records.limits import PoolLimits
from evertick.functions import Pool
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


@pytest.fixture
def again() -> Iterator[Callable[[App], App]]:
    """Makes the same app in another release, on the same database."""
    with ExitStack() as stack:

        def make(app: App) -> App:
            release = App(app.name, database_url=app.database_url)
            stack.callback(release.close)
            return release

        yield make


def test_a_worker_writes_the_limits_that_code_declares(open_app: OpenApp, caplog: pytest.LogCaptureFixture) -> None:
    app = open_app()
    mail = app.pool("mail", running=5, starts_per_minute=600)
    app.action(name="send", pool=mail)(lambda ctx: None)

    with caplog.at_level(logging.INFO, logger="evertick.engine"), Engine(app):
        seen = app.pools.get(mail)

    assert seen.limits == PoolLimits(running=5, starts_per_minute=600)
    assert (seen.pool, seen.limits_from) == ("mail", "code")
    assert "the pool mail is declared with running=5, starts_per_minute=600" in caplog.text


@pytest.mark.postgres
def test_workers_that_start_together_write_a_declaration_once(
    open_postgres_app: OpenApp, again: Callable[[App], App]
) -> None:
    """Each has read the old limits when the other writes: one of them met a conflict, and its worker did not start."""
    app = open_postgres_app()
    both = threading.Barrier(2)
    releases = [app, again(app)]
    for release in releases:
        release.pool("mail", running=5)
        meet_once_after_reading(release, both)

    with ThreadPoolExecutor() as threads:
        list(threads.map(App.sync_pools, releases))

    assert app.pools.get("mail").limits == PoolLimits(running=5)


def meet_once_after_reading(app: App, both: threading.Barrier) -> None:
    """The app's first transaction waits for another one's when it has read the limits."""
    store = app.environment.store
    write = store.write

    def write_met(work: Any, **options: Any) -> Any:
        def met(transaction: Any) -> Any:
            read = transaction.pool_use

            def pool_use() -> Any:
                found = read()
                if not both.broken:
                    with suppress(threading.BrokenBarrierError):
                        both.wait(60)
                    both.abort()
                return found

            transaction.pool_use = pool_use
            return work(transaction)

        return write(met, **options)

    store.write = write_met  # type: ignore[method-assign]


def test_the_settings_of_a_pool_are_deleted(open_app: OpenApp, again: Callable[[App], App]) -> None:
    """Limits, a pause and the declaration go; a worker of that code writes them again when it starts."""
    app = open_app()
    app.pool("mail", running=5)
    app.sync_pools()
    app.pools.set("bulk", starts_per_minute=60)
    app.pools.pause("bulk")

    gone = app.pools.delete("mail")
    assert (gone.limits, gone.limits_from) == (PoolLimits(), "")
    assert app.pools.delete("bulk").limits == PoolLimits()
    assert [each.pool for each in app.pools.list()] == ["default"]
    for name in ("mail", "nowhere"):
        with pytest.raises(NotFound, match="has no settings"):
            app.pools.delete(name)
    with pytest.raises(Misuse, match="pool's name"):
        app.pools.delete("a b")

    release = again(app)
    release.pool("mail", running=5)
    release.sync_pools()
    assert release.pools.get("mail").limits_from == "code"


def test_a_pool_that_is_in_use_keeps_its_settings_unless_forced(open_app: OpenApp) -> None:
    app = open_app()
    app.action(name="send", pool="mail")(lambda ctx: None)
    app.pools.set("mail", running=2)
    app.pools.pause("mail")
    app.scheduler.run_after(3_600, "send")
    app.scheduler.run_after(0, "send")

    def refused() -> str:
        with pytest.raises(Conflict) as error:
            app.pools.delete("mail")
        return str(error.value)

    assert refused().startswith("the pool 'mail' is in use: 1 of its jobs are due and wait. To remove")
    with Engine(app) as engine:
        engine.until(lambda: "due and wait; a live worker has send in it" in refused() or None)
        assert app.pools.get("mail").limits == PoolLimits(running=2, paused=True)
        assert app.pools.delete("mail", force=True).limits == PoolLimits()
        engine.until(lambda: app.jobs.counts()["success"] == 1 or None)
    assert app.jobs.counts()["pending"] == 1, "a job that is due later stays in its pool"


def test_a_change_at_run_time_holds_until_the_declaration_changes(
    open_app: OpenApp, again: Callable[[App], App]
) -> None:
    app = open_app()
    app.pool("mail", running=5)
    app.sync_pools()
    assert app.pools.set("mail", running=9).limits_from == "changed"

    same = again(app)
    same.pool("mail", running=5)
    same.sync_pools()
    assert same.pools.get("mail").limits == PoolLimits(running=9)

    same.pools.set("mail", running=None)
    same.sync_pools()
    assert (same.pools.get("mail").limits, same.pools.get("mail").limits_from) == (PoolLimits(), "changed")

    same.pools.pause("mail")
    other = again(app)
    other.pool("mail", running=6)
    other.sync_pools()
    assert other.pools.get("mail").limits == PoolLimits(running=6, paused=True)  # a pause is no part of the code

    other.pools.resume("mail")
    none = again(app)
    none.pool("mail")
    none.sync_pools()
    assert (none.pools.get("mail").limits, none.pools.get("mail").limits_from) == (PoolLimits(), "")
    assert app.environment.store.read(lambda tx: tx.any_limits()) == (False, False, False)
    assert none.pools.set("mail", per_tenant=1).limits_from == "set"


def test_actions_are_retried_as_their_pool_says_unless_their_caller_does() -> None:
    app, attempts = App("retried", database_url="sqlite://"), list[str]()
    mail = app.pool("mail", retry=Retry(3, first=0.1))

    @app.action(name="send", pool=mail)
    async def send(ctx: ActionCtx, to: str) -> None:
        attempts.append(to)
        raise ValueError(to)

    @app.action(name="send by name", pool="mail")
    def send_by_name(ctx: Any, to: str) -> None:
        attempts.append(to)
        raise ValueError(to)

    @app.mutation(name="note", pool=mail)
    def note(ctx: MutationCtx, to: str) -> None:
        attempts.append(to)
        raise ValueError(to)

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await step.run(send, "step")

    with World(app) as world:
        app.scheduler.run_after(0, send, "ada")
        app.scheduler.run_after(0, send_by_name, "bob")
        app.scheduler.using(retry=Retry(2, first=0.1)).run_after(0, send, "own")
        app.scheduler.run_after(0, note, "mutation")
        app.workflows.start(flow)
        app.schedules.create("daily", when=every(hours=1), do=send.with_args("schedule"))
        world.advance(3_700)

    counted = {to: attempts.count(to) for to in ("ada", "bob", "own", "mutation", "step", "schedule")}
    assert counted == {"ada": 3, "bob": 3, "own": 2, "mutation": 1, "step": 3, "schedule": 3}


def test_the_limits_hold_in_a_world_and_after_a_deploy() -> None:
    app = App("limited", database_url="sqlite://")
    app.pool("default", running=0)
    done = []

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None:
        done.append(ctx.job_id)

    with World(app) as world:
        app.scheduler.run_after(0, tick)
        world.advance(5)
        assert done == []

        newer = App("limited", database_url="sqlite://")
        newer.mutation(name="tick")(tick.handler)
        newer.pool("default", running=1)
        world.deploy(newer)
        world.advance(5)
        assert len(done) == 1


@pytest.mark.parametrize(
    ("declare", "error", "says"),
    [
        (lambda app: app.pool("a b"), Misuse, "a pool's name is 1 to"),
        (lambda app: app.pool(""), Misuse, "a pool's name is 1 to"),
        (lambda app: app.pool(5), Misuse, "a pool's name is 1 to"),
        (lambda app: app.pool("mail", running=-1), Misuse, "running= takes a whole number"),
        (lambda app: app.pool("mail", running="5"), Misuse, "running= takes a whole number"),
        (lambda app: app.pool("mail", runing=5), Misuse, "a pool takes no option runing"),
        (lambda app: app.pool("mail", starts_per_minute=0), Misuse, "from 1 to"),
        (lambda app: app.pool("mail", starts_per_minute=10_000_000), Misuse, "to 1,000,000, not"),
        (lambda app: app.pool("mail", retry=3), Misuse, r"retry= takes a policy such as Retry\(5\), not 3"),
        (lambda app: [app.pool("mail"), app.pool("mail", running=1)], RegistrationError, "'mail' is declared twice"),
    ],
)
def test_what_cannot_be_declared_is_refused(declare: Callable[[Any], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        declare(App("refused", database_url="sqlite://"))


def test_a_pool_with_a_retry_is_declared_before_the_functions_in_it() -> None:
    app = App("late", database_url="sqlite://")
    app.action(name="send", pool="mail")(lambda ctx: None)

    assert isinstance(app.pool("other", retry=Retry(3)), Pool)
    with pytest.raises(RegistrationError, match=r"declare the pool 'mail' before the functions that use its retry: "):
        app.pool("mail", retry=Retry(3))
    assert app.pool("mail", running=5) == "mail"  # limits need no order


def test_a_function_whose_pool_is_perhaps_misspelt_is_logged(
    open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = open_app()
    app.pool("calls", running=3)
    for name, pool in (("right", "calls"), ("wrong", "cals"), ("other", "mail"), ("none", "default")):

        @app.mutation(name=name, pool=pool)
        def work(ctx: MutationCtx) -> None: ...

    with caplog.at_level(logging.WARNING, "evertick.engine"):
        app.sync_pools()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["wrong is in the pool cals, which is not declared; did you mean calls?"]


def test_a_worker_for_a_pool_without_functions_says_so(open_app: OpenApp, caplog: pytest.LogCaptureFixture) -> None:
    app = open_app("shop")
    app.pool("calls", running=3)

    @app.mutation(name="mail", pool="mail")
    def mail(ctx: MutationCtx) -> None: ...

    with caplog.at_level(logging.WARNING, "evertick.engine"):
        app.worker(pools=["calls", "mail", "default", "cals", "x"])
    assert [record.getMessage() for record in caplog.records] == [
        "no function is in the pool cals, which this worker serves; did you mean calls?",
        "no function is in the pool x, which this worker serves",
    ]
