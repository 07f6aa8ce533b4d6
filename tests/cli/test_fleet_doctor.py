"""`evertick doctor --fleet`: what keeps workers from doing what is scheduled, on a database and on a server."""

import shlex
from collections.abc import Iterator

import pytest

from evertick import App, MutationCtx, every
from evertick.app.insight import fleet_doctor
from evertick.base.clock import SystemClock
from evertick.base.ids import DEFAULT_TENANT, ScheduleId, WorkerId
from evertick.base.instants import HOUR_MS, Instant
from evertick.base.records.jobs import SERVES, FunctionKind, ServedFunction, Serves, Worker
from evertick.store.sqlite.store import SqliteStore
from evertick.store.transaction.transaction import Transaction
from tests.cli.desk import Command, Ended
from tests.server.serving import serving


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app with a function in the usual pool and one in the pool `mail`."""
    app = App("shop")

    @app.mutation(name="shop.bill")
    def bill(ctx: MutationCtx) -> None: ...

    @app.mutation(name="shop.send", pool="mail")
    def send(ctx: MutationCtx) -> None: ...

    app.open()
    yield app
    app.close()


def works(app: App, name: str, *, zone_data: str = "2026a", is_alive: bool = True, **serves: object) -> None:
    """Register a worker that serves all functions of the app, unless `serves` says otherwise."""
    now = app.environment.clock.now()
    functions = tuple(ServedFunction(each.name, FunctionKind.MUTATION, each.pool, "()") for each in app.functions)
    runs = Serves(**{"functions": functions, "apps": ("shop",), **serves})  # type: ignore[arg-type]
    worker = Worker(
        id=WorkerId(f"worker_{name}"),
        started_at=now,
        leased_until=Instant(now + HOUR_MS if is_alive else now - HOUR_MS),
        host=name,
        pid=1,
        app="shop",
        serves=SERVES.value(runs),
        zone_data=zone_data,
    )
    app.environment.store.write(lambda transaction: transaction.register_worker(worker))
    if is_alive:
        app.environment.store.lock_engine()  # as the only engine of a file does


def found(done: Ended) -> list[tuple[str, str]]:
    return [(each["check"], each["name"]) for each in done.json["findings"]]


def test_a_fleet_that_is_well_is_told_so(shop: App, command: Command) -> None:
    works(shop, "one")
    shop.schedules.create("s", when=every(hours=1), do="shop.bill")
    done = command("doctor", "--fleet")
    assert (done.code, done.out, done.err) == (0, "", "1 live worker, no problem\n")


def test_nothing_runs_without_a_worker(shop: App, command: Command) -> None:
    shop.schedules.create("s", when=every(hours=1), do="shop.bill")
    works(shop, "one", is_alive=False)
    done = command("doctor", "--fleet", "-o", "json")
    assert (done.code, found(done)) == (8, [("workers", "workers"), ("workers", "worker_one")])


def test_functions_and_pools_that_nobody_serves_are_found_with_a_command_that_helps(
    shop: App, command: Command
) -> None:
    served = tuple(
        ServedFunction(each.name, FunctionKind.MUTATION, each.pool, "()")
        for each in shop.functions
        if each.name != "shop.bill"
    )
    works(shop, "one", functions=served, pools=("shop default",))
    for name in ("shop.bill", "shop.send"):
        shop.scheduler.run_after(0, name)
    shop.schedules.create("s", when=every(hours=1), do="shop.bill")
    done = command("doctor", "--fleet", "-o", "json")
    assert (done.code, sorted(found(done))) == (
        8, [("functions", "s"), ("functions", "shop.bill"), ("pools", "mail")],
    )  # fmt: skip
    [fix] = [each["fix"] for each in done.json["findings"] if each["name"] == "shop.bill"]
    assert command(*shlex.split(fix.rpartition("evertick ")[2]), "--yes").code == 0


def test_lag_is_told(shop: App, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    works(shop, "one")
    shop.scheduler.run_after(0, "shop.bill")
    assert found(command("doctor", "--fleet", "-o", "json")) == []
    monkeypatch.setattr(fleet_doctor, "LAG_MAX_MS", 0)
    assert found(command("doctor", "--fleet", "-o", "json")) == [("lag", "lag")]


@pytest.mark.parametrize(("ahead_ms", "told"), [(120_000, "2 min behind"), (-120_000, "2 min ahead of"), (500, None)])
@pytest.mark.parametrize("where", ["a database", "a server"])
def test_a_clock_that_differs_from_the_databases_is_told(
    where: str, ahead_ms: int, told: str | None, shop: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SQLite file has no clock of its own, so it gets one here, as a PostgreSQL server on another machine has."""
    works(shop, "one")
    monkeypatch.setattr(SqliteStore, "database_now", lambda store: Instant(SystemClock().now() + ahead_ms))
    with serving(shop) as url:
        monkeypatch.setenv("EVERTICK_TOKEN", shop.tokens.create("root").secret)
        done = command("doctor", *(("--url", url) if where == "a server" else ("--fleet",)), "-o", "json")
    report = done.json
    assert abs(report["clock_ahead_ms"] - ahead_ms) < 300
    assert found(done) == ([] if told is None else [("clock", "clock")])
    assert done.code == (0 if told is None else 8)
    if told is not None:
        [finding] = report["findings"]
        assert finding["detail"] == f"this machine's clock is {told} the database's, whose time counts"
        assert finding["fix"] == "let NTP set the clocks of both machines"


def test_workers_with_other_time_zone_data_are_told(shop: App, command: Command) -> None:
    works(shop, "one")
    works(shop, "two", zone_data="2020a")
    done = command("doctor", "--fleet", "-o", "json")
    assert found(done) == [("zone_data", "zone data")]
    assert "2020a on two:1; 2026a on one:1" in done.json["findings"][0]["detail"]


def test_a_server_examines_its_fleet(shop: App, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    works(shop, "two", zone_data="2020a")
    works(shop, "one")
    monkeypatch.setenv("EVERTICK_TOKEN", shop.tokens.create("root", scope="read").secret)
    with serving(shop) as url:
        done = command("doctor", "--url", url, "-o", "json")
        assert (done.code, found(done)) == (8, [("zone_data", "zone data")])
        wrong = command("doctor", "shop.py", "--url", url)
        assert (wrong.code, "without code" in wrong.err) == (2, True)
        of_one = command("doctor", "--tenant", "acme", "--url", url, "-o", "json")
        assert of_one.json["tenants"] == ["acme"]


def test_a_schedule_without_a_time_to_come_is_found(shop: App, command: Command) -> None:
    works(shop, "one")
    shop.schedules.create("s", when=every(hours=1), do="shop.bill")

    def lose_times(transaction: Transaction) -> int:  # as new zone data may do it
        row = transaction.get_schedule(ScheduleId("s"), tenant=DEFAULT_TENANT)
        assert row is not None
        return transaction.save_schedules([row._replace(next_at=None)])

    assert shop.environment.store.write(lose_times) == 1
    assert found(command("doctor", "--fleet", "-o", "json")) == [("times", "s")]
