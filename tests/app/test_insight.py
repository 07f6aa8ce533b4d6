"""What dashboards show: how a tenant does now, what happened in each minute, what comes, and where things are."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from evertick import ActionCtx, App, MutationCtx, Step, cron, every
from evertick.app.status import status_of
from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.insight import SLOT_MS, ActivityRow, PoolActivityRow
from evertick.base.records.jobs import NewJob
from evertick.rules.jobs.histogram import bucket_of, duration_of, quantile_ms, spread_of_texts, spread_to_text
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.store.rows import new_job

OpenWorld = Callable[..., World]
START = datetime(2026, 1, 1, tzinfo=UTC)


def shop() -> App:
    app = App("shop")

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx, item: str = "bread") -> None:
        if item == "stone":
            raise ValueError("nobody eats stones")

    @app.action(name="shop.mail")
    async def mail(ctx: ActionCtx) -> None: ...

    @app.workflow(name="shop.fulfil")
    async def fulfil(step: Step) -> str:
        return str(await step.wait_for("paid"))

    return app


@pytest.fixture
def shop_app() -> App:
    return shop()


def test_an_idle_app_has_nothing_to_tell(world: OpenWorld, shop_app: App) -> None:
    world(shop_app)

    overview = shop_app.insight.overview()

    assert (overview.lag_ms, overview.lag_p99_ms, overview.alive, overview.lost) == (0, None, 1, ())
    assert (overview.late.number, overview.failed_hour.number, overview.missed_day.number) == (0, 0, 0)
    assert (overview.queued, overview.attention) == ((), ())


def test_minutes_are_written_when_they_are_over(world: OpenWorld, shop_app: App) -> None:
    w = world(shop_app)
    for item in ("bread", "tea", "stone"):
        shop_app.scheduler.run_after(5, "shop.order", item=item)
    shop_app.scheduler.run_after(90, "shop.mail")
    w.advance(50)
    assert shop_app.insight.activity().minutes == ()
    w.advance(71)

    first, second = shop_app.insight.activity().minutes
    shown, day = shop_app.insight.overview_and_day()
    assert day.minutes == (first, second)
    assert shown.lag_p99_ms == shop_app.insight.overview().lag_p99_ms

    assert (first.at, first.ended, first.failed) == (START, 3, 1)
    assert (second.at, second.ended, second.failed) == (START + timedelta(minutes=1), 1, 0)
    assert first.late_p99_ms is not None
    assert first.late_p99_ms < 1_000
    assert [each.ended for each in shop_app.insight.activity(span=60).minutes] == [1]
    [tens] = shop_app.insight.activity(span=3_600, function="shop.order").minutes
    assert (tens.at, tens.ended, tens.failed, tens.late_p99_ms) == (START, 3, 1, None)
    assert shop_app.insight.activity(function="shop.none").minutes == ()
    with pytest.raises(LimitExceeded, match="two days"):
        shop_app.insight.activity(span=timedelta(days=3))


def test_a_failure_is_in_the_last_hour_and_in_the_last_day_at_once(world: OpenWorld, shop_app: App) -> None:
    """The one is counted from jobs, the other from what workers write down when a minute is over."""
    w = world(shop_app)
    for item in ("stone", "bread", "stone"):
        shop_app.scheduler.run_after(5, "shop.order", item=item)

    for seconds, written in ((10, 0), (49, 0), (62, 2), (3_400, 2)):
        w.advance(seconds)
        shown, day = shop_app.insight.overview_and_day()
        assert sum(each.failed for each in shop_app.insight.activity().minutes) == written
        assert (shown.failed_hour.number, sum(each.failed for each in day.minutes)) == (2, 2), seconds
        assert sum(each.ended for each in day.minutes) == (3 if written else 2), seconds
    w.advance(200)
    shown, day = shop_app.insight.overview_and_day()
    assert (shown.failed_hour.number, sum(each.failed for each in day.minutes)) == (0, 2)


def test_pools_tell_what_ended_in_them_and_how_late_it_began(world: OpenWorld, shop_app: App) -> None:
    """The rows of a pool are for ten minutes: each minute that is over adds to them, to how late it was as well."""
    press = shop_app.pool("press", running=1)

    @shop_app.action(name="shop.print", pool=press)
    async def print_bill(ctx: ActionCtx) -> None:
        await asyncio.sleep(30)

    w = world(shop_app)
    shop_app.scheduler.run_after(5, "shop.order", item="stone")
    for _ in range(3):  # one after the other: they end in two minutes
        shop_app.scheduler.run_after(0, "shop.print")
    w.advance(50)
    assert shop_app.insight.activity(pool="press").minutes == ()
    w.advance(700)
    shop_app.scheduler.run_after(0, "shop.print")
    w.advance(91)

    first, second = shop_app.insight.activity(span=3_600, pool="press").minutes
    assert (first.at, first.ended, first.failed) == (START, 3, 0)
    assert (second.at, second.ended) == (START + timedelta(minutes=10), 1)
    assert abs((first.late_p50_ms or 0) - 30_000) <= 30_000 / 8
    assert abs((first.late_p99_ms or 0) - 60_000) <= 60_000 / 8
    [other] = shop_app.insight.activity(pool="default").minutes
    assert (other.ended, other.failed) == (1, 1)
    stats, days, day = shop_app.insight.pools_and_day()
    assert [each.pool for each in stats] == list(days) == ["default", "press"]
    assert [each.ended for each in days["press"].minutes] == [3, 1]
    assert sum(each.ended for each in day.minutes) == 5
    assert [each.late_p99_ms for each in day.minutes] == [first.late_p99_ms, second.late_p99_ms]
    assert shop_app.insight.functions_and_day()[1] == day


def test_activity_is_asked_for_by_function_or_by_pool(shop_app: App, world: OpenWorld) -> None:
    world(shop_app)
    assert shop_app.insight.activity(pool="nobody").minutes == ()
    with pytest.raises(Misuse, match="not both"):
        shop_app.insight.activity(function="shop.order", pool="press")
    with pytest.raises(Misuse, match="a pool's name is"):
        shop_app.insight.activity(pool="a/b")


def test_functions_tell_how_often_they_ran_and_failed(world: OpenWorld, shop_app: App) -> None:
    w = world(shop_app)
    for item in ("bread", "stone", "stone"):
        shop_app.scheduler.run_after(5, "shop.order", item=item)
    w.advance(2 * 3600)
    shop_app.scheduler.run_after(1, "shop.order")
    w.advance(61)
    shop_app.scheduler.run_after(600, "shop.order")

    page = shop_app.insight.functions()
    by_name = {each.name: each for each in page.functions}

    order, mail = by_name["shop.order"], by_name["shop.mail"]
    assert (order.kind, order.pools, order.served) == ("mutation", ("default",), True)
    assert (order.pending, order.success, order.failed) == (1, 2, 2)
    assert (order.runs_hour, order.failed_hour, order.runs_day, order.failed_day) == (1, 0, 4, 2)
    assert order.p50_ms is not None
    assert order.next_due == START + timedelta(seconds=2 * 3600 + 61 + 600)
    assert (mail.runs_day, mail.p50_ms, mail.next_due) == (0, None, None)
    first = shop_app.insight.functions(limit=1)
    rest = shop_app.insight.functions(cursor=first.cursor)
    assert first.functions + rest.functions == page.functions
    with pytest.raises(LimitExceeded):
        shop_app.insight.functions(limit=101)


def test_the_run_of_a_workflow_has_taken_its_waits_too(world: OpenWorld) -> None:
    app = App("shop")

    @app.workflow(name="shop.remind")
    async def remind(step: Step) -> None:
        await step.sleep(3600)

    w = world(app)
    app.workflows.start(remind)
    w.advance(3600)

    [remind_stats] = app.insight.functions(function="shop.remind").functions

    assert (remind_stats.success, remind_stats.p50_ms, remind_stats.p99_ms) == (1, 3_600_000, 3_600_000)


def test_what_needs_attention_has_its_reason(world: OpenWorld, shop_app: App) -> None:
    w = world(shop_app)
    schedules = shop_app.schedules
    schedules.create("bad", when=every(minutes=30), do="shop.order")
    schedules.update("bad", do=shop_app.functions.resolve("shop.order").with_args(item="stone"))
    schedules.create("lost", when=every(minutes=30), do="shop.mail", catch_up_window=timedelta(seconds=30))
    schedules.create("held", when=every(hours=1), do="shop.mail")
    schedules.using(actor="ana").pause("held", "vendor outage")
    w.advance(25 * 3600)
    w.kill()
    w.advance(45 * 60)
    w.restart()
    w.advance(1)

    found = {each.problem: each for each in shop_app.insight.overview().attention}

    missed, failing, paused = found["missed"], found["failing"], found["paused"]
    assert (missed.name, missed.what) == ("lost", "missed 1 time, noticed in the last 24 hours")
    assert missed.why.startswith("no worker evaluated it within its catch-up window")
    assert (failing.name, failing.what) == ("bad", "failed 5 of the last 5")
    assert "nobody eats stones" in failing.why
    assert (paused.name, paused.what) == ("held", "paused for 1 d by ana: vendor outage")
    assert paused.why == "24 times skipped since"  # a paused schedule is looked at once a day
    assert "unserved" not in found
    overview = shop_app.insight.overview()
    assert overview.missed_day.number == overview.failing_schedules.number == overview.paused_schedules.number == 1


def test_jobs_that_no_worker_serves_are_told_with_the_reason(open_app: OpenApp) -> None:
    app = open_app("shop")

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx) -> None: ...

    app.migrate()
    app.open()
    job_id = app.scheduler.run_after(0, order)
    [alone] = app.insight.overview().attention
    assert (alone.problem, alone.name, alone.count, alone.why) == ("unserved", "shop.order", 1, "no worker is alive")
    assert [(each.pool, each.jobs.number) for each in app.insight.overview().queued] == [("default", 1)]
    assert app.jobs.get(job_id).held == "waits: no worker is alive"

    with Engine(app) as engine:
        engine.wait(job_id)
        app.environment.store.write(lambda tx: tx.insert_jobs([strange(app.environment.clock.now())]))
        [elsewhere] = app.insight.overview().attention
        assert elsewhere.why == "no live worker has the function 'shop.gone'"
        [gone] = app.jobs.list(blocked=True).jobs
        assert (gone.blocked, gone.held) == (True, "blocked: no worker runs this function")
        assert app.insight.overview().alive == 1
        assert app.insight.overview().lag_ms == 0
        if app.environment.store.single_engine:  # renews no lease: its lock tells that it lives
            app.environment.store.write(end_leases)
            assert (app.insight.overview().alive, app.insight.overview().lost) == (1, ())
    # The engine has ended, and the minute that had begun was written.
    assert sum(each.ended for each in app.insight.activity().minutes) == 1


def end_leases(transaction: Transaction) -> None:
    for worker in transaction.list_workers():
        transaction.renew_lease(worker.id, leased_until=Instant(0))


def test_jobs_that_a_paused_pool_holds_back_need_attention(world: OpenWorld, shop_app: App) -> None:
    w = world(shop_app)
    shop_app.pools.pause("default")
    job_id = shop_app.scheduler.run_after(0, "shop.order")
    w.advance(60)

    overview = shop_app.insight.overview()
    [held] = overview.attention

    assert (held.problem, held.kind, held.name, held.count) == ("held", "pool", "default", 1)
    assert (held.what, held.why) == ("1 due job waiting in the pool 'default'", "the pool is paused")
    assert (overview.late.number, overview.lag_ms) == (1, 0)  # it is late, but no worker lags behind
    assert shop_app.jobs.get(job_id).held == "waits: pool 'default' is paused"
    shop_app.pools.resume("default")
    assert (shop_app.jobs.get(job_id).held, shop_app.insight.overview().attention) == (None, ())


def test_jobs_that_the_rate_of_their_pool_spreads_are_not_late(world: OpenWorld) -> None:
    app = App("shop")
    app.pool("press", starts_per_minute=60)

    @app.mutation(name="shop.letter", pool="press")
    def letter(ctx: MutationCtx) -> None: ...

    w = world(app)
    for _ in range(120):
        app.scheduler.run_after(0, letter)
    w.advance(30)

    overview = app.insight.overview()
    now = app.environment.clock.now()
    status = app.environment.store.view(lambda tx: status_of(tx, None, now))
    assert (overview.lag_ms, overview.late.number, overview.attention) == (0, 0, ())
    assert [(queue.pool, queue.jobs.number) for queue in overview.queued] == [("press", 84)]
    assert (status.lag_ms, [queue.due for queue in status.queues]) == (0, [84])


def strange(now: Instant) -> NewJob:
    """A due job of a function that no code has."""
    return new_job(77, name="shop.gone", due_at=Instant(now - MINUTE_MS))


def test_what_comes_is_counted_in_buckets_of_five_minutes(world: OpenWorld, shop_app: App) -> None:
    world(shop_app)
    for name in ("a", "b", "c"):
        shop_app.schedules.create(name, when=every(minutes=10), do="shop.mail")
    shop_app.schedules.create("d", when=cron("7 1 * * *"), do="shop.mail")
    shop_app.schedules.create("paused", when=every(minutes=1), do="shop.mail", paused=True)

    coming = shop_app.insight.coming()

    assert (coming.start, len(coming.starts), coming.schedules, coming.complete) == (START, 24, 4, True)
    assert coming.starts[:4] == (0, 0, 3, 0)
    assert coming.starts[13] == 1
    assert sum(coming.starts) == 3 * 11 + 1
    with pytest.raises(LimitExceeded):
        shop_app.insight.coming(span=timedelta(days=2))


def test_jobs_that_come_are_counted_beside_schedules(world: OpenWorld, shop_app: App) -> None:
    world(shop_app)
    for after in (60, 61, 3_600, 8_000):
        shop_app.scheduler.run_after(after, "shop.mail")
    shop_app.tenant("acme").scheduler.run_after(60, "shop.mail")
    shop_app.scheduler.run_after(0, "shop.mail")

    for coming in (shop_app.insight.coming(), shop_app.insight.coming_and_changes()[0]):
        assert (sum(coming.starts), coming.complete, coming.all_jobs) == (0, True, True)
        assert {place: count for place, count in enumerate(coming.jobs) if count} == {0: 2, 12: 1}
        assert coming.both == coming.jobs
    assert sum(shop_app.tenant("acme").insight.coming().jobs) == 1


def test_of_very_many_jobs_the_first_are_counted(
    world: OpenWorld, shop_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(shop_app)
    for after in (60, 61, 62):
        shop_app.scheduler.run_after(after, "shop.mail")
    for most, all_jobs in ((3, True), (2, False)):
        monkeypatch.setattr("evertick.app.insight.overview.COMING_JOBS", most)
        assert shop_app.insight.coming().all_jobs is all_jobs


def test_changes_are_told_newest_first(world: OpenWorld, shop_app: App) -> None:
    w = world(shop_app)
    shop_app.schedules.create("s", when=every(hours=1), do="shop.mail")
    w.advance(10)
    shop_app.schedules.using(actor="ana").pause("s", "vendor outage")

    newest, oldest = shop_app.insight.changes()

    assert (newest.actor, newest.action, newest.target) == ("ana", "schedule.paused", "s")
    assert (oldest.action, oldest.at) == ("schedule.created", START)
    assert shop_app.insight.changes(limit=1) == (newest,)
    with pytest.raises(LimitExceeded):
        shop_app.insight.changes(limit=0)


def test_a_search_finds_things_of_every_kind(world: OpenWorld, shop_app: App) -> None:
    world(shop_app)
    shop_app.schedules.create("mail every hour", when=every(hours=1), do="shop.mail")
    job_id = shop_app.scheduler.using(key="order-17").run_after(600, "shop.order")
    run_id = shop_app.workflows.using(key="ful-ada").start("shop.fulfil")

    def found(text: str) -> list[tuple[str, str]]:
        return [(each.kind, each.id) for each in shop_app.insight.search(text)]

    assert found("mail") == [("schedule", "mail every hour"), ("function", "shop.mail")]
    assert found("SHOP.F") == [("function", "shop.fulfil")]
    assert found("order-17") == [("job", job_id)]
    assert found(job_id[-6:]) == [("job", job_id)]
    assert ("job", job_id) in found(job_id[:12])
    assert found("ful-") == found("ada") == [("run", run_id)], "a key, by its beginning or by a part"
    assert found("er-17") == [("job", job_id)]
    assert found(run_id) == [("run", run_id)]
    assert found("nothing of the kind") == []
    with pytest.raises(Misuse, match="1 to 200"):
        shop_app.insight.search("  ")


def test_activity_is_added_up_and_pruned(open_app: OpenApp) -> None:
    app = open_app("shop")
    app.migrate()
    app.open()
    store, at = app.environment.store, Instant(10 * MINUTE_MS)
    row = ActivityRow(DEFAULT_TENANT, "", at, "w1", 3, 1, 0, 1, spread_to_text({0: 2, bucket_of(100): 1}), None)
    theirs = row._replace(tenant=TenantId("other"))

    for each in ([row, theirs], [row], [row._replace(source="w2", ended=5, late=None)]):
        store.write(lambda tx, each=each: tx.add_activity(each))  # type: ignore[misc]
    found = store.read(lambda tx: tx.activity_by_minute(DEFAULT_TENANT, since=at))

    assert sorted((each.ended, each.failed, each.retried) for each in found) == [(5, 1, 1), (6, 2, 2)]
    assert store.write(lambda tx: tx.prune_activity(before=Instant(at + 1), limit=2)) == 2
    assert store.write(lambda tx: tx.prune_activity(before=at, limit=2)) == 0


def test_what_pools_did_is_added_up_and_pruned(open_app: OpenApp) -> None:
    app = open_app("shop")
    app.migrate()
    app.open()
    store, at = app.environment.store, Instant(SLOT_MS)
    row = PoolActivityRow(DEFAULT_TENANT, "mail", at, "w1", 3, 1, 0, 1, spread_to_text({0: 3}))
    theirs = row._replace(tenant=TenantId("other"))
    later = row._replace(late=spread_to_text({0: 6}))  # of the whole ten minutes so far

    for each in ([row, theirs], [later], [row._replace(source="w2", ended=5, late=None)]):
        store.write(lambda tx, each=each: tx.add_activity([], each))  # type: ignore[misc]
    found = store.read(lambda tx: tx.activity_of_pool(DEFAULT_TENANT, "mail", since=at))

    assert sorted((each.ended, each.retried, each.late or "") for each in found) == [(5, 1, ""), (6, 2, '{"0":6}')]
    [summed] = store.read(lambda tx: tx.activity_by_pool(DEFAULT_TENANT, since=at))["mail"]
    assert (summed.at, summed.ended, summed.failed, summed.retried) == (at, 11, 3, 3)
    assert store.write(lambda tx: tx.prune_activity(before=Instant(at + 1), limit=2)) == 2
    assert store.write(lambda tx: tx.prune_activity(before=Instant(at + 1), limit=2)) == 1
    assert store.write(lambda tx: tx.prune_activity(before=Instant(at + 1), limit=2)) == 0


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 7, 8, 100, 999, 12_345, 86_400_000])
def test_a_bucket_knows_its_durations_to_an_eighth(milliseconds: int) -> None:
    assert abs(duration_of(bucket_of(milliseconds)) - milliseconds) <= milliseconds / 8


def test_quantiles_are_read_from_sums_of_spreads() -> None:
    texts = [spread_to_text({bucket_of(10): 98}), None, spread_to_text({bucket_of(5_000): 2})]
    spread = spread_of_texts(texts)
    assert abs((quantile_ms(spread, 0.5) or 0) - 10) <= 1
    assert abs((quantile_ms(spread, 0.99) or 0) - 5_000) <= 5_000 / 8
    assert quantile_ms({}, 0.5) is None
