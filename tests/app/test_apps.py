"""Several apps on the same tables: a job belongs to an app, and only workers of that app run it."""

import logging
from collections.abc import Sequence

import pytest

from evertick import App, JobResult, MutationCtx, every
from evertick.app.doctor import examine
from evertick.app.status import status_of
from evertick.base.errors import AlreadyExists, Misuse
from evertick.base.ids import DEFAULT_POOL, JobId
from evertick.base.instants import HOUR_MS, Instant
from evertick.base.records.jobs import FunctionKind, NewJob
from tests.app.engine import Engine, job_of
from tests.cli.desk import work_until

SEND = "send"


def app_at(url: str, name: str, *, aliases: Sequence[str] = ()) -> App:
    """An app whose function `send` says which app ran it, and which keeps what `told` is told."""
    app = App(name, aliases=aliases, database_url=url)

    @app.mutation(name=SEND, pool="mail")
    def send(ctx: MutationCtx, to: str = "") -> str:
        ctx.db.insert("sent", {"by": name, "to": to})
        return name

    @app.mutation(name="told")
    def told(ctx: MutationCtx, job_id: str, context: str, result: JobResult) -> str:
        ctx.db.insert("sent", {"by": name, "to": context})
        return name

    @app.mutation(name=f"only_{name}")
    def only(ctx: MutationCtx) -> str:
        return name

    app.migrate()
    return app


def senders(app: App, to: str) -> list[str]:
    """Which apps have sent something to someone."""
    return [row["by"] for row in app.db.query("sent").collect() if row["to"] == to]


def test_a_worker_leaves_the_jobs_of_another_app_to_it(database_url: str) -> None:
    """Both have a function of the same name; what follows from a job belongs to the job's app, too."""
    shop, blog = app_at(database_url, "shop"), app_at(database_url, "blog")
    told = shop.functions.resolve("told")
    shops = shop.scheduler.using(on_complete=told, context="told").run_after(0, SEND, "ada")

    with Engine(blog) as engine:
        blogs = blog.scheduler.run_after(0, SEND, "bob")
        assert engine.wait(blogs).result == "blog"
        for _ in range(20):  # it has looked again and again since the other one was due
            engine.wait(blog.scheduler.run_after(0, SEND, "eve"))
        waiting = job_of(blog, shops)
        assert (waiting.state.value, waiting.blocked) == ("pending", True)
    with Engine(shop) as engine:
        assert engine.wait(shops).result == "shop"
        engine.until(lambda: senders(shop, "told") or None)

    assert (senders(shop, "ada"), senders(shop, "bob"), senders(shop, "told")) == (["shop"], ["blog"], ["shop"])
    shop.close()
    blog.close()


def test_a_schedule_that_another_apps_worker_evaluates_starts_jobs_of_its_own_app(database_url: str) -> None:
    shop, blog = app_at(database_url, "shop"), app_at(database_url, "blog")
    shop.crons.add("hourly", every(hours=1), SEND, "cron")
    shop.sync_crons()
    shop.schedules.create("by hand", when=every(hours=1), do=shop.functions.resolve(SEND).with_args("hand"))

    def started() -> set[tuple[str | None, str]]:
        return {(job.app, job.state.value) for job in shop.jobs.list(function=SEND).jobs}

    shop.schedules.trigger("by hand")
    work_until(blog, lambda: len(shop.jobs.list(function=SEND).jobs) == 2)  # an interval's first run is at once
    assert started() == {("shop", "pending")}
    assert (senders(blog, "cron"), senders(blog, "hand")) == ([], [])
    with Engine(shop) as engine:
        engine.until(lambda: (senders(shop, "cron") and senders(shop, "hand")) or None)
    assert set(senders(shop, "cron")) == set(senders(shop, "hand")) == {"shop"}
    shop.close()
    blog.close()


def test_an_app_with_a_new_name_goes_on_with_what_it_had_under_its_old_one(database_url: str) -> None:
    shop = app_at(database_url, "shop")
    shop.crons.add("hourly", every(hours=1), SEND, "cron")
    shop.sync_crons()
    job_id = shop.scheduler.run_after(0, SEND, "ada")
    shop.close()

    store = app_at(database_url, "store", aliases=["shop"])
    store.crons.add("hourly", every(hours=1), SEND, "cron")
    with Engine(store) as engine:
        assert engine.wait(job_id).result == "store"
        store.schedules.trigger("hourly")
        engine.until(lambda: senders(store, "cron") or None)
    assert store.sync_crons().unchanged == ("hourly",)
    store.close()


def test_a_job_that_belongs_to_no_app_is_run_by_any_that_knows_its_function(database_url: str) -> None:
    """As earlier releases wrote them, and as the command line does without an app."""
    shop, blog = app_at(database_url, "shop"), app_at(database_url, "blog")
    now = Instant(shop.environment.clock.now() - HOUR_MS)
    old = JobId("job_0000000000000000000000000001")
    row = NewJob(old, FunctionKind.MUTATION, SEND, "{}", now, now, now)
    assert row.pool == DEFAULT_POOL
    shop.environment.store.write(lambda tx: tx.insert_jobs([row]))
    shop.close()

    with Engine(blog) as engine:
        assert engine.wait(old).result == "blog"
    blog.close()


def test_a_key_that_another_app_holds_is_no_silent_keep(database_url: str) -> None:
    shop, blog = app_at(database_url, "shop"), app_at(database_url, "blog")
    held = shop.scheduler.using(key="order-1").run_after(60, SEND, "ada")
    assert shop.scheduler.using(key="order-1").run_after(60, SEND, "ada") == held

    for on_conflict in ("keep", "replace", "error"):
        with pytest.raises(AlreadyExists, match=f"{held} .*holds the key 'order-1'"):
            blog.scheduler.using(key="order-1", on_conflict=on_conflict).run_after(60, SEND, "bob")

    assert job_of(shop, held).state.value == "pending"
    shop.close()
    blog.close()


def test_the_doctor_looks_at_its_own_app_alone(database_url: str) -> None:
    shop, blog = app_at(database_url, "shop"), app_at(database_url, "blog")
    shop.crons.add("hourly", every(hours=1), "only_shop")
    shop.sync_crons()
    shop.scheduler.run_after(60, "only_shop")
    shop.schedules.create("nightly", when=every(hours=24), do="only_shop")
    blog.scheduler.run_after(60, "only_blog")

    reports = {app.name: examine(app, app.environment.store, None) for app in (shop, blog)}
    gone = App("shop", database_url=database_url)
    found = examine(gone, gone.environment.store, None)

    assert [(each.fits, each.jobs, each.schedules, each.crons) for each in reports.values()] == [
        (True, 2, 1, 1),  # the first run of a cron that is deployed is at once
        (True, 1, 0, 0),
    ]
    assert {(each.what, each.function) for each in found.findings} == {("job", "only_shop"), ("schedule", "only_shop")}
    for app in (shop, blog, gone):
        app.close()


def test_a_worker_on_the_tables_of_another_app_says_so_and_what_it_leaves(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "evertick")
    shop, blog = app_at(database_url, "shop"), app_at(database_url, "blog")
    with Engine(shop) as engine:
        engine.wait(shop.scheduler.run_after(0, SEND, "ada"))
    assert "on the same tables" not in caplog.text
    left = shop.scheduler.run_after(0, SEND, "eve")

    work_until(blog, lambda: f"job {left} (send) is blocked" in caplog.text)

    assert "one of the app shop on the same tables, and this is the app blog" in caplog.text
    assert "no live worker of the app shop runs this function in the pool mail" in caplog.text
    shop.close()
    blog.close()


def test_lists_and_the_status_show_the_app(database_url: str) -> None:
    shop, blog = app_at(database_url, "shop"), app_at(database_url, "blog")
    shop.scheduler.run_after(60, SEND, "ada")
    blog.scheduler.run_after(60, SEND, "bob")

    now = shop.environment.clock.now()

    assert {(job.app, job.pool) for job in shop.jobs.list().jobs} == {("shop", "mail"), ("blog", "mail")}
    assert [
        (each.app, each.function, each.pool, each.later)
        for each in shop.environment.store.view(lambda tx: status_of(tx, None, now)).queues
    ] == [
        ("blog", SEND, "mail", 1),
        ("shop", SEND, "mail", 1),
    ]
    shop.close()
    blog.close()


def test_a_name_that_an_app_cannot_have_had_is_refused() -> None:
    for wrong, words in ((["a/b"], "cannot be an app's name"), ([""], "cannot be an app's name"), ("shop", "a list")):
        with pytest.raises(Misuse, match=words):
            App("shop", aliases=wrong)
