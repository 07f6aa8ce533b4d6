"""What tenants may use: starts are held back, and what exceeds a quota is refused."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, SyncActionCtx, every
from evertick.base.errors import InvalidTenant, Misuse, QuotaExceeded
from evertick.base.ids import TenantId, WorkerId
from evertick.base.records.jobs import FunctionKind, JobFilter, JobState
from evertick.base.records.limits import TenantLimits, TenantUsage
from evertick.engine.jobs.claims import Capacity, Claims
from evertick.engine.runtime.settings import Settings
from evertick.store.store import Isolation
from evertick.store.transaction.limits import Tenants
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine


def states(app: App, tenant: str) -> Counter[str]:
    """How many jobs of a tenant are in each state."""
    where = JobFilter(tenant=TenantId(tenant))
    jobs = app.environment.store.read(lambda tx: tx.list_jobs(where, limit=1_000))
    return Counter(job.state.value for job in jobs)


class Together:
    """Counts how many actions run at a time."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.now: Counter[str] = Counter()

    async def run(self, tenant: str) -> None:
        """One action: long enough for others to begin beside it."""
        self.now[tenant] += 1
        self.most[tenant] = max(self.most[tenant], self.now[tenant])
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        self.now[tenant] -= 1
        self.ended[tenant] += 1


def counting(open_app: OpenApp, **options: Any) -> tuple[App, Together]:
    """An app with an action that counts how many of it run."""
    app, together = open_app(**options), Together()

    @app.action(name="work")
    async def work(ctx: ActionCtx) -> None:
        await together.run(ctx.tenant)

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str = "") -> None:
        ctx.db.insert("notes", {"text": text})

    return app, together


def test_no_more_actions_of_a_tenant_run_at_a_time_than_its_limit(open_app: OpenApp) -> None:
    app, together = counting(open_app)
    app.tenants.set("acme", running=2)
    for _ in range(12):
        app.tenant("acme").scheduler.run_after(0, "work")
        app.tenant("free").scheduler.run_after(0, "work")

    with Engine(app) as engine:
        engine.until(lambda: together.ended == {"acme": 12, "free": 12} or None)

    assert together.most["acme"] == 2
    assert together.most["free"] > 2


@pytest.mark.postgres
def test_two_workers_share_the_limit(open_postgres_app: OpenApp) -> None:
    app, together = counting(open_postgres_app)
    app.tenants.set("acme", running=3)
    for _ in range(30):
        app.tenant("acme").scheduler.run_after(0, "work")

    with Engine(app) as engine, Engine(app):
        engine.until(lambda: together.ended["acme"] == 30 or None)

    assert together.most["acme"] <= 3


def test_with_a_limit_of_nothing_jobs_wait_until_it_is_raised(open_app: OpenApp) -> None:
    app, together = counting(open_app)
    app.tenants.set("acme", running=0)
    app.tenant("acme").scheduler.run_after(0, "note", text="later")
    app.tenant("free").scheduler.run_after(0, "work")

    with Engine(app) as engine:
        engine.until(lambda: together.ended["free"] == 1 or None)
        assert states(app, "acme") == {"pending": 1}
        app.tenants.set("acme", running=None)
        engine.until(lambda: states(app, "acme") == {"success": 1} or None)

    assert app.tenants.list(limited=True) == []
    assert [each.tenant for each in app.tenants.list()] == ["acme", "free"]


def test_many_held_back_tenants_do_not_hide_one_that_may_start(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.engine.jobs.claims.OLDEST_MAX", 4)
    app, together = counting(open_app, settings=Settings(action_slots=2, batch=2))
    for n in range(20):
        app.tenants.set(f"held {n:02}", running=0)
        app.tenant(f"held {n:02}").scheduler.run_after(0, "work")
    app.tenant("zz free").scheduler.run_after(0, "work")

    with Engine(app) as engine:
        engine.until(lambda: together.ended["zz free"] == 1 or None)

    assert set(together.ended) == {"zz free"}


def test_starts_are_spread_over_the_minute() -> None:
    app = App("rated", database_url="sqlite://")
    starts: list[float] = []

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None:
        starts.append(ctx.now.timestamp())

    with World(app) as world:
        app.tenants.set("default", starts_per_minute=60)
        began = world.now.timestamp()
        for _ in range(30):
            app.scheduler.run_after(0, "tick")
        world.advance(300)

    assert len(starts) == 30
    assert sum(at - began < 1 for at in starts) == 6
    assert all(sum(at <= other < at + 60 for other in starts) <= 67 for at in starts)
    assert starts[-1] - began >= 23


def test_what_exceeds_the_jobs_or_their_arguments_is_refused(open_app: OpenApp) -> None:
    app, _ = counting(open_app)
    acme = app.tenant("acme")
    app.tenants.set("acme", jobs=2)
    acme.scheduler.run_after(60, "note")
    with pytest.raises(QuotaExceeded, match=r"tenant acme has 1 unfinished jobs and is given 2 more; its limit is 2"):
        acme.scheduler.run_after_many(60, [app.functions.resolve("note").with_args(text="a")] * 2)
    kept = acme.scheduler.run_after(60, "note")
    with pytest.raises(QuotaExceeded):
        acme.scheduler.run_after(60, "note")
    app.scheduler.run_after(60, "note")  # another tenant's

    acme.scheduler.cancel(kept)
    acme.scheduler.run_after(60, "note")
    app.tenants.set("acme", jobs=None, argument_bytes=100)
    with pytest.raises(QuotaExceeded, match="bytes of arguments"):
        acme.scheduler.run_after(60, "note", text="x" * 100)

    assert states(app, "acme") == {"pending": 2, "canceled": 1}


def test_a_key_that_is_kept_or_replaced_needs_no_more_room(open_app: OpenApp) -> None:
    app, _ = counting(open_app)
    app.tenants.set("default", jobs=1)
    first = app.scheduler.using(key="k").run_after(60, "note")

    assert app.scheduler.using(key="k", on_conflict="keep").run_after(60, "note") == first
    assert app.scheduler.using(key="k", on_conflict="replace").run_after(60, "note") != first
    assert states(app, "default") == {"pending": 1, "canceled": 1}


def test_a_mutation_is_refused_where_it_schedules_and_may_go_on(open_app: OpenApp) -> None:
    app, _ = counting(open_app)

    @app.mutation(name="fan_out")
    def fan_out(ctx: MutationCtx, count: int) -> int:
        for n in range(count):
            try:
                ctx.scheduler.run_after(60, "note")
            except QuotaExceeded:
                return n
        return count

    app.tenants.set("acme", jobs=3)

    assert app.tenant("acme").call("fan_out", 9) == 3
    assert states(app, "acme") == {"pending": 3}


def test_an_action_and_a_connection_of_the_users_are_refused(open_app: OpenApp) -> None:
    app, _ = counting(open_app)
    seen: list[str] = []

    @app.action(name="schedule")
    def schedule(ctx: SyncActionCtx) -> None:
        with pytest.raises(QuotaExceeded):
            ctx.scheduler.run_after(60, "note")
        seen.append(ctx.tenant)

    app.tenants.set("acme", jobs=0)
    app.tenant("acme").call("schedule")

    assert seen == ["acme"]


@pytest.mark.parametrize("kind", ["mutation", "action"])
def test_jobs_of_a_tenant_at_its_limit_schedule_what_follows_them(open_app: OpenApp, kind: str) -> None:
    app, _ = counting(open_app)

    if kind == "mutation":

        @app.mutation(name="first")
        def first(ctx: MutationCtx) -> None:
            ctx.scheduler.run_after(3600, "note")
    else:

        @app.action(name="first")
        def first_action(ctx: SyncActionCtx) -> None:
            ctx.scheduler.run_after(3600, "note")

    app.tenants.set("default", jobs=3)
    jobs = [app.scheduler.run_after(0, "first") for _ in range(3)]
    with Engine(app) as engine:
        for job in jobs:
            assert engine.wait(job).state == "success"

    assert states(app, "default") == {"success": 3, "pending": 3}


def test_a_tenant_has_as_many_schedules_as_it_may(open_app: OpenApp) -> None:
    app, _ = counting(open_app)
    acme = app.tenant("acme")
    app.tenants.set("acme", schedules=1)
    acme.schedules.create("one", when=every(days=1), do="note")
    acme.schedules.create("one", when=every(days=1), do="note")  # the same again

    with pytest.raises(QuotaExceeded, match="1 schedules"):
        acme.schedules.create("two", when=every(days=1), do="note")


def test_what_a_schedule_starts_counts_and_is_not_refused() -> None:
    app = App("scheduled", database_url="sqlite://")

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None: ...

    with World(app) as world:
        app.schedules.create("often", when=every(minutes=1), do="tick")
        app.tenants.set("default", jobs=0)
        world.advance(180)
        assert app.schedules.get("often").counters.started == 3


def test_limits_are_read_and_changed_one_by_one(open_app: OpenApp) -> None:
    app, _ = counting(open_app)
    app.tenants.set("bolt", jobs=9)
    app.tenants.set("acme", running=1, jobs=2)
    view = app.tenants.set("acme", running=None, schedules=3)
    app.tenant("acme").scheduler.run_after(60, "note")

    assert view.limits == TenantLimits(jobs=2, schedules=3)
    assert app.tenants.get("acme").usage == TenantUsage(running=0, jobs=1, argument_bytes=2, schedules=0)
    assert [each.tenant for each in app.tenants.list()] == ["acme", "bolt"]
    assert [each.tenant for each in app.tenants.list(first="b", limit=1)] == ["bolt"]
    app.tenant("aaa").scheduler.run_after(60, "note")
    [first, *_] = app.tenants.list(limit=1)
    assert (first.tenant, first.limits.is_empty, first.usage.jobs) == ("aaa", True, 1)
    [*_, acme] = app.tenants.list(limit=2)
    assert (acme.tenant, acme.limits.schedules) == ("acme", 3)
    assert [each.tenant for each in app.tenants.list(limited=True)] == ["acme", "bolt"]
    assert asyncio.run(_awaited(app)) == TenantLimits(jobs=2, schedules=3)
    assert app.tenants.get("unknown").limits.is_empty


async def _awaited(app: App) -> TenantLimits:
    return (await app.aio.tenants.get("acme")).limits


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"running": -1}, "running= takes a whole number from 0"),
        ({"jobs": 1.5}, "jobs= takes a whole number from 0"),
        ({"jobs": True}, "jobs= takes a whole number from 0"),
        ({"starts_per_minute": 0}, "starts_per_minute= takes a whole number from 1"),
        ({"runs": 1}, "a tenant takes no option runs; the options are running, starts_per_minute, jobs"),
    ],
)
def test_a_limit_that_is_none_is_refused(open_app: OpenApp, limits: dict[str, Any], message: str) -> None:
    app = open_app()

    with pytest.raises(Misuse, match=message):
        app.tenants.set("acme", **limits)
    with pytest.raises(InvalidTenant):
        app.tenants.set(" ", jobs=1)
    with pytest.raises(Misuse, match="limit="):
        app.tenants.list(limit=0)


def test_a_first_limit_is_heard_of_by_a_program_that_runs(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.app.scheduling.job_builder.ASK_EVERY_MS", 0)
    app, _ = counting(open_app)
    app.scheduler.run_after(60, "note")
    app.tenants.set("default", jobs=1)

    with pytest.raises(QuotaExceeded):
        app.scheduler.run_after(60, "note")


def test_a_creation_asks_for_limits_only_where_there_are_some(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = counting(open_app)
    asked: list[str] = []
    for question in ("any_tenant_limits", "get_tenant_limits"):
        monkeypatch.setattr(Tenants, question, _noting(asked, getattr(Tenants, question)))
    monkeypatch.setattr("evertick.app.scheduling.job_builder.ASK_EVERY_MS", 3_600_000)

    for name in ("one", "two"):
        app.schedules.create(name, when=every(days=1), do="note")
    assert asked == ["any_tenant_limits"]

    app.tenants.set("default", schedules=2)
    with pytest.raises(QuotaExceeded, match="2 schedules"):
        app.schedules.create("three", when=every(days=1), do="note")


def _noting(asked: list[str], question: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(question)
    def noted(*args: Any, **options: Any) -> Any:
        asked.append(question.__name__)
        return question(*args, **options)

    return noted


def test_where_no_tenant_has_limits_a_claim_asks_nothing_more(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, together = counting(open_app)

    def asked(*args: Any, **options: Any) -> None:
        raise AssertionError("no tenant has limits")

    for question in ("held_back_tenants", "start_limits", "running_jobs", "get_tenant_limits"):
        monkeypatch.setattr(Tenants, question, asked)
    job_id = app.scheduler.run_after(0, "work")

    with Engine(app) as engine:
        assert engine.wait(job_id).state is JobState.SUCCESS
    assert together.ended["default"] == 1


@pytest.mark.postgres
def test_a_claim_behind_the_tenants_of_the_last_one_heeds_their_limits(open_postgres_app: OpenApp) -> None:
    app, _ = counting(open_postgres_app)
    app.tenants.set("acme", running=1)
    e = app.environment
    claims = Claims(e.engine_deps(app._execution, app.counters), FunctionKind.MUTATION)
    worker_id, now = WorkerId("worker_ann"), e.clock.now

    def claim() -> int:
        isolation = claims.isolation(Isolation.RELAXED)
        work = lambda tx: claims.claim_due(tx, worker_id, now=now(), capacity=Capacity(jobs=9))  # noqa: E731
        return len(e.store.write(work, isolation=isolation).claims)

    app.tenant("acme").scheduler.run_after(0, "note")
    assert [claim(), claim()] == [0, 1]  # the first one learns of the limit, the second one locks it
    assert claim() == 0
    assert claims._may_guess  # that look has found nothing: the next claim begins where the last one succeeded
    app.tenant("acme").scheduler.run_after(0, "note")
    assert [claim() for _ in range(5)] == [0] * 5


@pytest.mark.postgres
def test_the_limit_of_mutations_is_locked_until_their_claim_is_committed(open_postgres_app: OpenApp) -> None:
    """Mutations are claimed statement by statement where nothing is limited: then a lock would hold for nothing."""
    app, _ = counting(open_postgres_app)
    app.tenants.set("acme", running=1)
    for _ in range(2):
        app.tenant("acme").scheduler.run_after(0, "note")
    e = app.environment
    first, second = (Claims(e.engine_deps(app._execution, app.counters), FunctionKind.MUTATION) for _ in range(2))
    counts: list[int] = []

    def claim(claims: Claims, *, beside: Claims | None = None) -> int:
        def work(transaction: Transaction) -> int:
            count = len(
                claims.claim_due(
                    transaction, WorkerId("worker_ann"), now=e.clock.now(), capacity=Capacity(jobs=9)
                ).claims
            )
            if beside is not None:
                counts.append(pool.submit(claim, beside).result(PATIENCE_S))
            return count

        return e.store.write(work, isolation=claims.isolation(Isolation.RELAXED))

    assert [claim(first), claim(second)] == [0, 0]  # they learn that there are limits

    with ThreadPoolExecutor(1) as pool:
        assert claim(first, beside=second) == 1
    assert counts == [0]


@pytest.mark.long
def test_a_rate_beyond_what_can_be_counted_is_refused_and_one_that_is_stored_ends_no_worker(open_app: OpenApp) -> None:
    app, _ = counting(open_app)
    with pytest.raises(Misuse, match="starts_per_minute= takes a whole number from 1 to 1,000,000, not 60000001"):
        app.tenants.set("acme", starts_per_minute=60_000_001)
    app.tenants.set("acme", starts_per_minute=1_000_000)
    sql = "update tenant_limits set starts_per_minute = 1000000000000"
    app.environment.store.write(lambda tx: tx.connection.execute(sql))

    job = app.tenant("acme").scheduler.run_after(0, "note")
    other = app.scheduler.run_after(0, "note")
    with Engine(app) as engine:
        engine.wait(other)
        engine.until(lambda: app.tenant("acme").jobs.get(job).state == "success" or None)
