"""What the functions of `app.on_failure` hear."""

import asyncio
import logging
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evertick import App, MutationCtx, Retry, cron
from evertick.errors import Misuse
from evertick.functions import ActionCtx, Failure
from evertick.testing import World


class Kaput(Exception):
    pass


def make_app(database_url: str | None = None) -> tuple[App, list[Failure]]:
    app = App("shop", database_url=database_url)
    heard: list[Failure] = []

    @app.mutation(name="breaks")
    def breaks(ctx: MutationCtx) -> None:
        raise Kaput("no stock")

    @app.action(name="flaky")
    async def flaky(ctx: ActionCtx) -> None:
        raise Kaput("no reply")

    @app.mutation(name="works")
    def works(ctx: MutationCtx) -> None:
        pass

    app.on_failure(heard.append)
    return app, heard


def test_it_hears_of_a_failed_job_with_the_exception() -> None:
    app, heard = make_app()
    with World(app) as world:
        job_id = app.scheduler.run_after(0, "breaks")
        app.scheduler.run_after(0, "works")
        world.advance(600)

    (failure,) = heard
    assert (failure.job_id, failure.function, failure.attempt, failure.will_retry) == (job_id, "breaks", 1, False)
    assert (failure.error, type(failure.exception)) == ("Kaput: no stock", Kaput)
    assert "in breaks" in failure.traceback


def test_it_hears_of_each_attempt_and_whether_another_one_follows() -> None:
    app, heard = make_app()
    with World(app) as world:
        app.scheduler.using(retry=Retry(attempts=3)).run_after(0, "flaky")
        world.advance(600)

    assert [(each.attempt, each.will_retry) for each in heard] == [(1, True), (2, True), (3, False)]
    assert all(type(each.exception) is Kaput for each in heard)


def test_it_hears_of_a_job_whose_worker_died() -> None:
    app = App("shop")
    heard: list[Failure] = []
    app.on_failure(heard.append)

    @app.action(name="waits")
    async def waits(ctx: ActionCtx) -> None:
        await asyncio.sleep(3600)

    with World(app) as world:
        app.scheduler.run_after(0, waits)
        world.advance(1)
        world.kill()
        world.restart()
        world.advance(60)

    (failure,) = heard
    assert (failure.function, failure.exception, failure.will_retry) == ("waits", None, False)
    assert failure.error.startswith("LostWorker: ")


def test_what_a_hook_raises_is_logged_and_the_next_one_hears_too(caplog: pytest.LogCaptureFixture) -> None:
    app, heard = make_app()

    @app.on_failure
    def broken(failure: Failure) -> None:
        raise RuntimeError("the tracker is away")

    later: list[Failure] = []
    app.on_failure(later.append)
    with World(app) as world, caplog.at_level(logging.ERROR):
        app.scheduler.run_after(0, "breaks")
        world.advance(600)

    assert len(heard) == len(later) == 1
    assert "a function of app.on_failure raised" in caplog.text
    assert "the tracker is away" in caplog.text


def test_in_a_worker_hooks_run_in_a_thread_of_their_own_and_delay_nothing(tmp_path: Path) -> None:
    app, _ = make_app(f"sqlite:///{tmp_path}/shop.db")
    may_go_on, heard_of = threading.Event(), threading.Event()
    names: list[str] = []

    @app.on_failure
    def slow(failure: Failure) -> None:
        names.append(threading.current_thread().name)
        heard_of.set()
        may_go_on.wait(60)

    with app.running():
        app.scheduler.run_after(0, "breaks")
        assert heard_of.wait(60)
        done = threading.Event()

        @app.mutation(name="late")
        def late(ctx: MutationCtx) -> None:
            done.set()

        app.scheduler.run_after(0, late)
        assert done.wait(60)
        may_go_on.set()
    assert app.failures is not None
    app.failures.flush()
    assert names == ["evertick-failures"]
    app.close()


def test_it_hears_of_which_run_with_which_arguments_it_was() -> None:
    app = App("shop")
    heard: list[Failure] = []
    app.on_failure(heard.append)

    @app.mutation(name="bill")
    def bill(ctx: MutationCtx, customer: str) -> None:
        raise Kaput(customer)

    @app.action(name="waits")
    async def waits(ctx: ActionCtx) -> None:
        await asyncio.sleep(3600)

    with World(app) as world:
        app.schedules.create("nightly", when=cron("0 3 * * *"), do=bill.with_args("ada"))
        world.advance_to("2026-01-01T03:00:00Z")
        app.scheduler.using(key="bill-bob").run_after(0, bill, "bob")
        world.advance(1)
        app.schedules.create("waiting", when=cron("30 3 * * *"), do=waits)
        world.advance_to("2026-01-01T03:30:01Z")
        world.kill()
        world.restart()
        world.advance(60)

    assert [(each.args, each.key, each.schedule, each.nominal_time) for each in heard] == [
        ({"customer": "ada"}, None, "nightly", datetime(2026, 1, 1, 3, tzinfo=UTC)),
        ({"customer": "bob"}, "bill-bob", None, None),
        ({}, None, "waiting", datetime(2026, 1, 1, 3, 30, tzinfo=UTC)),
    ]


def test_a_hook_that_ends_its_thread_does_not_end_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app, _ = make_app(f"sqlite:///{tmp_path}/shop.db")
    heard = threading.Semaphore(0)

    @app.on_failure
    def leaves(failure: Failure) -> None:
        sys.exit("the tracker is away")

    app.on_failure(lambda _: heard.release())
    with app.running():
        for _ in range(2):
            app.scheduler.run_after(0, "breaks")
            assert heard.acquire(timeout=60)
    app.close()
    assert caplog.text.count("a function of app.on_failure raised") == 2


def test_a_hook_that_nothing_would_await_is_refused() -> None:
    async def report(failure: Failure) -> None: ...

    for hook in (report, "report", None):
        with pytest.raises(Misuse, match="takes a plain function of one Failure"):
            App("shop").on_failure(hook)  # type: ignore[arg-type]
