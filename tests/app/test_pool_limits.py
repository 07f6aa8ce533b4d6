"""What pools may run: jobs wait, on all workers together, and tenants share the places."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Step
from evertick.app.limits.pools import pool_waits
from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.ids import DEFAULT_TENANT, JobId
from evertick.base.records.limits import PoolLimits
from evertick.engine.runtime.settings import Settings
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


class Together:
    """Counts how many actions run at a time, in all and of each tenant."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.order: list[str] = []
        self._now: Counter[str] = Counter()

    async def run(self, tenant: str) -> None:
        """One action: long enough for others to begin beside it."""
        self.order.append(tenant)
        for name in (tenant, "all"):
            self._now[name] += 1
            self.most[name] = max(self.most[name], self._now[name])
        await asyncio.sleep(0.02)
        for name in (tenant, "all"):
            self._now[name] -= 1
            self.ended[name] += 1


def mailing(open_app: OpenApp, **options: Any) -> tuple[App, Together, Together]:
    """An app with an action in the pool `mail`, and one in the pool `default`."""
    app, mail, others = open_app(**options), Together(), Together()

    @app.action(name="send", pool="mail")
    async def send(ctx: ActionCtx) -> None:
        await mail.run(ctx.tenant)

    @app.action(name="work")
    async def work(ctx: ActionCtx) -> None:
        await others.run(ctx.tenant)

    return app, mail, others


def test_no_more_jobs_of_a_pool_run_at_a_time_than_its_limit(open_app: OpenApp) -> None:
    app, mail, others = mailing(open_app)
    app.pools.set("mail", running=2)
    for _ in range(12):
        app.scheduler.run_after(0, "send")
        app.scheduler.run_after(0, "work")

    with Engine(app) as engine:
        engine.until(lambda: (mail.ended["all"], others.ended["all"]) == (12, 12) or None)

    assert mail.most["all"] == 2
    assert others.most["all"] > 2


@pytest.mark.long
@pytest.mark.postgres
def test_workers_share_the_limit(open_postgres_app: OpenApp) -> None:
    app, mail, _ = mailing(open_postgres_app)
    app.pools.set("mail", running=3)
    for _ in range(30):
        app.scheduler.run_after(0, "send")

    with Engine(app) as engine, Engine(app), Engine(app), Engine(app):
        engine.until(lambda: mail.ended["all"] == 30 or None)

    assert mail.most["all"] <= 3


def test_tenants_get_equal_shares_of_a_pool_and_no_more_than_each_may(open_app: OpenApp) -> None:
    app, mail, _ = mailing(open_app)
    app.pools.set("mail", running=4, per_tenant=3)
    for _ in range(40):
        app.tenant("large").scheduler.run_after(0, "send")
    for _ in range(4):
        app.tenant("small").scheduler.run_after(0, "send")

    with Engine(app) as engine:
        engine.until(lambda: mail.ended["all"] == 44 or None)

    assert mail.most["large"] == 3
    assert mail.most["all"] <= 4
    assert mail.order.index("small") <= 4
    assert sum(tenant == "small" for tenant in mail.order[:14]) >= 3


def test_a_paused_pool_starts_nothing_until_it_is_resumed(open_app: OpenApp) -> None:
    app, mail, others = mailing(open_app)
    app.pools.set("mail", running=5)
    assert app.pools.pause("mail", "away").limits == PoolLimits(running=5, paused=True, note="away")
    assert app.pools.pause("mail").limits.note == "away"
    assert app.pools.set("mail", running=5).limits.note == "away"
    with pytest.raises(Misuse, match="note= takes text"):
        app.pools.pause("mail", 7)  # type: ignore[arg-type]
    app.scheduler.run_after(0, "send")
    app.scheduler.run_after(0, "work")

    with Engine(app) as engine:
        engine.until(lambda: others.ended["all"] == 1 or None)
        seen = app.pools.get("mail")
        assert (seen.ready, seen.running, mail.ended["all"]) == (1, 0, 0)
        assert seen.oldest is not None
        assert app.pools.resume("mail").limits == PoolLimits(running=5)
        engine.until(lambda: mail.ended["all"] == 1 or None)


def test_a_pool_with_limits_does_not_hide_others_in_a_small_look(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.engine.jobs.claims.OLDEST_MAX", 2)
    app, mail, others = mailing(open_app, settings=Settings(action_slots=2, batch=2))
    app.pools.pause("mail")
    for n in range(20):
        app.tenant(f"held {n:02}").scheduler.run_after(0, "send")
    app.tenant("zz free").scheduler.run_after(0, "work")

    with Engine(app) as engine:
        engine.until(lambda: others.ended["all"] == 1 or None)

    assert mail.ended["all"] == 0


def test_the_starts_of_a_pool_are_spread_over_the_minute() -> None:
    app = App("rated", database_url="sqlite://")
    starts: list[float] = []

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None:
        starts.append(ctx.now.timestamp())

    with World(app) as world:
        app.pools.set("default", starts_per_minute=60)
        began = world.now.timestamp()
        for n in range(30):
            app.tenant(f"t{n % 3}").scheduler.run_after(0, "tick")
        world.advance(timedelta(minutes=5))

    assert len(starts) == 30
    assert sum(at - began < 1 for at in starts) == 6
    assert starts[-1] - began >= 23


def test_a_limit_of_a_tenant_and_one_of_its_pool_hold_both(open_app: OpenApp) -> None:
    app, mail, _ = mailing(open_app)
    app.pools.set("mail", running=3)
    app.tenants.set("acme", running=1)
    for _ in range(8):
        app.tenant("acme").scheduler.run_after(0, "send")
        app.tenant("bolt").scheduler.run_after(0, "send")

    with Engine(app) as engine:
        engine.until(lambda: mail.ended["all"] == 16 or None)

    assert (mail.most["acme"], mail.most["all"]) == (1, 3)


def test_pools_are_listed_with_what_they_have_to_do(open_app: OpenApp) -> None:
    app, _, _ = mailing(open_app)
    app.pools.set("slow", running=0)
    job = app.scheduler.run_after(0, "work")
    assert [(each.pool, each.limits.running, each.ready) for each in app.pools.list()] == [
        ("default", None, 1),
        ("slow", 0, 0),
    ]

    with Engine(app) as engine:
        engine.wait(job)
        listed = app.pools.list()

    assert [(each.pool, each.running, each.ready, each.oldest) for each in listed] == [
        ("default", 0, 0, None),
        ("mail", 0, 0, None),
        ("slow", 0, 0, None),
    ]
    assert app.pools.set("slow", running=None).limits == PoolLimits()
    assert app.pools.get("unseen").ready == 0


def test_pools_are_awaited_on_a_loop(open_app: OpenApp) -> None:
    app, _, _ = mailing(open_app)

    async def main() -> list[str]:
        await app.aio.pools.set("mail", running=1)
        assert (await app.aio.pools.get("mail")).limits.running == 1
        await app.aio.pools.pause("bulk")
        await app.aio.pools.resume("bulk")
        return [each.pool for each in await app.aio.pools.list()]

    assert asyncio.run(main()) == ["default", "mail"]


def test_what_no_pool_can_have_is_refused(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app, _, _ = mailing(open_app)
    for limits in ({"running": -1}, {"running": True}, {"per_tenant": "2"}, {"starts_per_minute": 0}, {"size": 1}):
        with pytest.raises(Misuse):
            app.pools.set("mail", **limits)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="starts_per_minute= takes a whole number from 1 to 1,000,000, not 1000001"):
        app.pools.set("mail", starts_per_minute=1_000_001)
    for name in ("", "a b", "x" * 101, None):
        with pytest.raises(Misuse, match="pool's name"):
            app.pools.get(name)  # type: ignore[arg-type]
    monkeypatch.setattr("evertick.app.limits.pools.LIMITED_MAX", 1)
    app.pools.set("one", running=1)
    app.pools.set("one", running=2)
    with pytest.raises(LimitExceeded):
        app.pools.set("two", running=1)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"running": 1}, "waits: pool 'mail' runs 1 of 1"),
        ({"running": 2, "per_tenant": 1}, "waits: pool 'mail' runs 1 of 1 for the tenant 'default'"),
        ({"per_key": 1}, "waits: pool 'mail' runs 1 of 1 for the key 'ada'"),
        ({"running": 2, "starts_per_minute": 600}, None),
        ({"running": 2, "starts_per_minute": 6}, "waits: pool 'mail' starts 6 a minute"),
    ],
)
def test_a_job_that_waits_says_what_its_pool_runs(open_app: OpenApp, limits: dict[str, int], words: str | None) -> None:
    app, seen, ids = open_app(), dict[str, dict[JobId, str]](), list[JobId]()
    enough = asyncio.Event()

    def look() -> dict[JobId, str]:
        def work(transaction: Transaction) -> dict[JobId, str]:
            jobs = transaction.get_jobs(ids, tenant=DEFAULT_TENANT)
            return pool_waits(transaction, jobs, max(job.due_at for job in jobs))

        return app.environment.store.view(work)

    @app.action(name="send", pool="mail")
    async def send(ctx: ActionCtx) -> None:
        await enough.wait()

    @app.action(name="look")
    async def look_at_them(ctx: ActionCtx) -> None:
        seen["now"] = await asyncio.to_thread(look)  # the store itself is not for functions, and refuses them
        enough.set()

    app.pools.set("mail", **limits)  # type: ignore[arg-type]
    ids += [app.scheduler.using(limit_key="ada").run_after(0, "send") for _ in range(2)]
    with Engine(app) as engine:
        engine.until(
            lambda: (
                sum(app.jobs.get(each).state == "in_progress" for each in ids) == (2 if words is None else 1) or None
            )
        )
        app.scheduler.run_after(0, "look")
        engine.until(lambda: "now" in seen or None)
        app.pools.set("mail", starts_per_minute=None)
        engine.until(lambda: all(app.jobs.get(each).state == "success" for each in ids) or None)

    assert list(seen["now"].values()) == ([] if words is None else [words])
    assert look() == {}


def test_customers_have_rates_of_their_own_in_pools_of_their_own() -> None:
    app = App("shop")

    @app.action(pool="mail")
    async def send(ctx: ActionCtx) -> None: ...

    @app.mutation
    def remind(ctx: MutationCtx, pool: str) -> str:
        return ctx.scheduler.using(pool=pool).run_after(0, send)

    with World(app, at="2026-01-05T09:00:00Z") as world:
        begin = world.now
        app.pools.set("mail-ada", starts_per_minute=6)
        app.pools.set("mail-bob", starts_per_minute=6)
        app.pools.pause("mail", "that is where the function is")
        ids = [app.scheduler.using(pool="mail-ada").run_after(0, send) for _ in range(2)]
        ids += [world.call(remind, "mail-ada"), world.call(remind, "mail-bob"), *app.scheduler.using(
            pool="mail-bob").run_after_many(0, [send.with_args()])]  # fmt: skip
        own = app.scheduler.run_after(0, send)
        world.advance(60)

        jobs = [app.jobs.get(each) for each in ids]
        assert [job.pool for job in jobs] == ["mail-ada"] * 3 + ["mail-bob"] * 2
        began = [(job.started_at - begin).total_seconds() for job in jobs if job.started_at is not None]
        assert began[0] < 1 and 9 < began[1] < 11 and 19 < began[2] < 21, began
        assert began[3] < 1 and 9 < began[4] < 11, began
        assert app.jobs.get(own).held == "waits: pool 'mail' is paused: that is where the function is"


def test_what_takes_no_pool_says_so(open_app: OpenApp) -> None:
    app, _, _ = mailing(open_app)

    @app.workflow(name="flow")
    async def flow(step: Step) -> None: ...

    with pytest.raises(Misuse, match="a pool's name is 1 to"):
        app.scheduler.using(pool="a/b")
    with pytest.raises(Misuse, match="takes no option pol; the options are key, on_conflict, retry"):
        app.scheduler.using(pol="mail")  # type: ignore[call-arg]
    with pytest.raises(Misuse, match="a run of flow is in the pool of its workflow"):
        app.scheduler.using(pool="mail").run_after(0, "flow")
