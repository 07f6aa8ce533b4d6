"""Each list page costs at most eight statements, whatever there is to show and whatever is asked of it."""

from datetime import timedelta
from typing import Final

import pytest

from evertick import App, MutationCtx, Settings, Step, every
from evertick.base.ids import WorkerId
from evertick.base.instants import HOUR_MS, Instant
from evertick.base.records.jobs import SERVES, ServedFunction, Serves
from evertick.store.postgres.transaction import PostgresTransaction
from evertick.store.sqlite.transaction import SqliteTransaction
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.dashboard.conftest import Site, site_of
from tests.dashboard.test_jobs import counted
from tests.server.conftest import add_activity
from tests.store.rows import worker

MOST: Final = 8
PAGES: Final = (
    "pools",
    "workers",
    "audit",
    "audit?of=all",
    "settings",
    "settings?view=tenants",
    "tenants",
    "logs",
    "logs?q=x",
    "schedules",
    "schedules?q=hour&sort=next",
    "schedules?q=function:shop.tally",
    "schedules?health=missed",
    "functions",
    "functions?order=oldest",
    "functions?order=due",
    "functions?state=running",
    "functions?state=failed",
    "functions?state=done",
    "functions?state=failed&error=x",
    "functions?function=shop.mail0",
    "functions?pool=mail0",
    "functions?due=late",
    "functions?due=late&pool=mail0",
    "functions?due=7d&order=due",
    "functions?blocked=true",
    "functions?function=shop.mail0&pool=mail0&due=late",
    "functions?q=key",
    "functions-by-name",
    "workflows",
    "workflows?workflow=shop.fulfil",
    "workflows?state=all",
    "workflows?state=all&roots=yes",
    "workflows?roots=yes&q=a",
    "workflows?state=all&attribute=customer%3Dada",
    "workflows?state=all&q=a&since=7d",
    "workflows?q=a",
    "workflows?state=failed",
    "schedules/hourly/backfills",
    "workflows?attribute=customer%3Dada",
    "logs?level=warning",
    "audit?actor=root",
    "workflow-types",
    "search?q=hour",
    "data",
    "data/orders",
    "data/orders?where=item%3Dbread",
    "data/none",
)


def shop(open_app: OpenApp, pools: int) -> Site:
    """Pages with much to show: limited and paused pools with due jobs, of keys and with parents, and a live worker."""
    app = open_app("shop", settings=Settings(poll=timedelta(milliseconds=100)))
    for n in range(pools):

        @app.mutation(name=f"shop.mail{n}", pool=app.pool(f"mail{n}", running=0, per_tenant=5, per_key=3))
        def send(ctx: MutationCtx, to: str) -> None: ...

    @app.mutation(name="shop.tally")
    def tally(ctx: MutationCtx, n: int) -> None:
        ctx.scheduler.using(limit_key="k").run_after(0, "shop.mail0", to="ann")
        ctx.scheduler.run_after(timedelta(hours=2), "shop.mail0", to="ann")

    @app.workflow(name="shop.fulfil")
    async def fulfil(step: Step, order_id: str) -> str:
        return str(await step.wait_for("paid"))

    app.table("orders", indexes={"by_item": ["item"]})
    app.migrate()
    app.open()
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, "shop.tally", n=1))
        app.scheduler.run_after(0, "shop.fulfil", order_id="a")
    fill(app, pools)
    return site_of(app)


def fill(app: App, pools: int) -> None:
    """Jobs of each pool and a job that no worker runs, a live worker, a schedule, and what happened lately."""
    now = app.environment.clock.now()
    functions = tuple(
        ServedFunction(each.name, each.served.kind, each.served.pool, "()")
        for each in app.functions
        if each.name != "shop.tally"
    )
    alive = worker(
        WorkerId("worker_alive"),
        started_at=now,
        leased_until=Instant(now + HOUR_MS),
        serves=SERVES.value(Serves(functions)),
    )
    app.environment.store.write(lambda tx: tx.register_worker(alive))
    app.environment.store.lock_engine()  # as the only engine of a file does
    app.pools.pause("mail1", "the printer is on fire")
    for n in range(pools):
        for key in ("a", "b", None):
            app.scheduler.using(limit_key=key).run_after(0, f"shop.mail{n}", to="ada")
        add_activity(app, f"shop.mail{n}", ended=3, failed=1, pool=f"mail{n}")
    app.scheduler.run_after(0, "shop.tally", n=1)
    app.scheduler.using(key="key").run_after(timedelta(hours=1), "shop.tally", n=1)
    app.schedules.create("hourly", when=every(hours=1), do=app.functions.resolve("shop.tally").with_args(n=1))
    for n in range(60):
        app.db.insert("orders", {"item": "bread"})
        app.db.insert(f"table{n % pools}", {})
    for n in range(pools):
        app.tenants.set(f"customer{n}", jobs=10)
    app.views.create("jobs", "mine", {"state": "failed"})


@pytest.fixture(params=[2, 40])
def pools(request: pytest.FixtureRequest) -> int:
    """How many pools there are."""
    return int(request.param)


@pytest.mark.long
def test_a_list_costs_few_statements_however_many_pools_there_are(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, pools: int
) -> None:
    found = costs(shop(open_app, pools), monkeypatch)

    assert {path: names for path, names in found.items() if not 0 < len(names) <= MOST} == {}
    assert len(found["settings?view=tenants"]) == 8
    assert (len(found["pools"]), len(found["/t/acme/pools"])) == (7, 5)


def test_the_list_of_pools_of_the_command_line_costs_the_same_however_many_there_are(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, pools: int
) -> None:
    app = shop(open_app, pools).app
    statements: list[str] = []
    for kind in (SqliteTransaction, PostgresTransaction):
        monkeypatch.setattr(kind, "_fetch", counted(kind._fetch, statements))

    listed = app.pools.list()

    assert [(each.pool, each.ready) for each in listed if each.pool == "mail1"] == [("mail1", 3)]
    assert len(listed) == pools + 1
    assert sorted(statements) == ["list_workers", "pool_use", "ready_in_pools"]


def costs(site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The statements of each page."""
    statements: list[str] = []
    of_acme = site.by("read", "acme")
    with monkeypatch.context() as patch:
        for kind in (SqliteTransaction, PostgresTransaction):
            patch.setattr(kind, "_fetch", counted(kind._fetch, statements))
        found = {}
        for path, reader in [*((path, site) for path in PAGES), ("/t/acme/pools", of_acme)]:
            statements.clear()
            reader.page(path)
            found[path] = list(statements)
        return found
