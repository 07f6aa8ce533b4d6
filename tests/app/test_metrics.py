"""Metrics: what Prometheus reads of a process and of a database."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from evertick import ActionCtx, App, MutationCtx, Retry
from evertick.app.measures import BUCKETS_S
from evertick.app.status import status_of
from evertick.base.errors import DatabaseUnavailable
from evertick.base.ids import TenantId
from evertick.base.instants import HOUR_MS, Instant
from evertick.metrics import Metrics
from evertick.store.transaction.transaction import Transaction
from evertick.store.write_health import WriteFailure
from evertick.testing import World, hours
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.store.schedule_rows import occurrence, schedule

ACME = TenantId("acme")


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name, by the values of their labels."""
    lines = [line for line in metrics.text().decode().splitlines() if re.match(rf"{name}[{{ ]", line)]
    return {tuple(re.findall(r'="((?:[^"\\]|\\.)*)"', line)): float(line.rpartition(" ")[2]) for line in lines}


def test_attempts_are_counted_by_function_and_outcome_with_their_times(open_app: OpenApp) -> None:
    app = open_app()
    metrics = Metrics(app)

    @app.mutation(name="keep")
    def keep(ctx: MutationCtx) -> None: ...

    @app.action(name="call")
    async def call(ctx: ActionCtx) -> None:
        raise ConnectionError("away")

    with Engine(app) as engine:
        for _ in range(3):
            engine.wait(app.scheduler.run_after(0, keep))
        engine.wait(app.scheduler.using(retry=Retry(2, first=0.001)).run_after(0, call))
        engine.until(lambda: len(values(metrics, "evertick_attempts_total")) == 3 or None)

    assert values(metrics, "evertick_attempts_total") == {
        ("test", "call", "action", "failed"): 1,
        ("test", "call", "action", "retried"): 1,
        ("test", "keep", "mutation", "success"): 3,
    }
    for name in ("duration", "lateness"):
        buckets = values(metrics, f"evertick_attempt_{name}_seconds_bucket")
        of_keep = [buckets["test", "keep", str(bound)] for bound in (*BUCKETS_S, "+Inf")]
        assert of_keep == sorted(of_keep)
        assert of_keep[-1] == values(metrics, f"evertick_attempt_{name}_seconds_count")["test", "keep"] == 3
        assert values(metrics, f"evertick_attempt_{name}_seconds_sum")["test", "keep"] >= 0
    assert values(metrics, "evertick_engine_events_total")["test", "jobs_success"] == 3


def test_the_database_is_read_at_each_collection_over_all_tenants(open_app: OpenApp) -> None:
    app = open_app()
    metrics = Metrics(app)

    @app.mutation(name="keep")
    def keep(ctx: MutationCtx) -> None: ...

    app.scheduler.run_after(timedelta(days=1), keep)
    app.tenant("acme").scheduler.run_after(timedelta(days=1), keep)
    app.tenant("acme").scheduler.run_after(0, keep)
    assert values(metrics, "evertick_jobs") == {
        ("test", "keep", "default", "blocked"): 0,
        ("test", "keep", "default", "due"): 1,
        ("test", "keep", "default", "later"): 2,
        ("test", "keep", "default", "running"): 0,
    }
    assert values(metrics, "evertick_oldest_due_job_seconds")["test", "keep", "default"] >= 0
    assert values(metrics, "evertick_database_up") == {(): 1}
    assert values(metrics, "evertick_workers") == {}

    with Engine(app) as engine:
        engine.until(lambda: values(metrics, "evertick_jobs")["test", "keep", "default", "due"] == 0 or None)
        assert values(metrics, "evertick_workers") == {("test", "alive"): 1}
        assert values(metrics, "evertick_lag_seconds") == {(): 0}


def test_a_schedule_that_waits_for_its_evaluator_is_late() -> None:
    app = App("test")

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None: ...

    with World(app) as world:
        metrics = Metrics(app)
        app.schedules.create("hourly", when="every hour", do=tick.with_args())
        world.advance(hours(1))
        assert values(metrics, "evertick_schedules_lag_seconds") == {(): 0}
        world.kill()
        world.advance(hours(3))
        assert values(metrics, "evertick_schedules_lag_seconds")[()] > 3600


def test_schedules_that_fail_or_missed_times_are_named_with_their_tenant(open_app: OpenApp) -> None:
    app = open_app()
    metrics = Metrics(app)
    app.open()
    now = app.environment.clock.now()
    found_at = [Instant(now - hour * HOUR_MS) for hour in (1, 2, 30)]
    rows = [
        occurrence(n, "nightly", tenant=ACME)._replace(fate="missed", reason="catch_up_window", decided_at=at)
        for n, at in enumerate(found_at)
    ]
    caught_up = rows[1]._replace(origin="backfill", fate="started", reason="backfilled")

    def fill(tx: Transaction) -> None:
        tx.insert_schedule(schedule("nightly", tenant=ACME, missed_at=Instant(now - HOUR_MS)))
        tx.insert_schedule(schedule("long ago", tenant=ACME, missed_at=Instant(now - 25 * HOUR_MS)))
        tx.insert_schedule(schedule("hourly", last_failure="no data"))
        tx.record_occurrences([*rows, caught_up])

    app.environment.store.write(fill)

    assert values(metrics, "evertick_missed_occurrences") == {("app.report", "nightly", "acme"): 1}
    assert values(metrics, "evertick_failing_schedules") == {("app.report", "hourly", "default"): 1}


def test_missed_times_of_other_tenants_take_no_place_in_the_status_of_one(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real once: the schedules of all tenants were cut before those of the tenant were chosen."""
    monkeypatch.setattr("evertick.app.status.MISSED_MAX", 1)
    app = open_app()
    app.open()
    now = app.environment.clock.now()

    def fill(tx: Transaction) -> None:
        for tenant in (ACME, TenantId("zeta")):
            tx.insert_schedule(schedule("nightly", tenant=tenant, missed_at=now))
            missed = occurrence(1, "nightly", tenant=tenant)
            tx.record_occurrences([missed._replace(fate="missed", reason="catch_up_window", decided_at=now)])

    app.environment.store.write(fill)

    found = app.environment.store.view(lambda tx: status_of(tx, TenantId("zeta"), now).missed)
    assert [(each.tenant, each.schedule, each.times) for each in found] == [("zeta", "nightly", 1)]


def test_decided_times_are_counted_by_fate(open_app: OpenApp) -> None:
    app = open_app()
    metrics = Metrics(app, database=False)

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None: ...

    with Engine(app) as engine:
        app.schedules.create("ticks", when="every second", do=tick.with_args())
        engine.until(lambda: ("test", "started", "tick") in values(metrics, "evertick_occurrences_total") or None)

    assert values(metrics, "evertick_database_up") == {}


def test_what_a_backfill_runs_is_counted_and_not_late(open_app: OpenApp) -> None:
    app = open_app()
    metrics = Metrics(app, database=False)

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None: ...

    with Engine(app) as engine:
        app.schedules.create("nightly", when="every day at 03:00", do=tick)
        now = datetime.now(UTC)
        app.schedules.backfill("nightly", now - timedelta(days=10), now - timedelta(days=1), overlap="allow_all")
        engine.until(
            lambda: values(metrics, "evertick_occurrences_total").get(("test", "started", "tick")) == 9 or None
        )

    assert values(metrics, "evertick_occurrence_lateness_seconds_count") == {}


def test_a_database_that_is_away_is_told_and_breaks_nothing(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    metrics = Metrics(app)
    app.open()

    def away(*_: Any) -> None:
        raise DatabaseUnavailable("away")

    assert values(metrics, "evertick_database_writable") == {(): 1}
    monkeypatch.setattr(app.environment.store, "write_failure", lambda: WriteFailure("full", "full", 0))
    assert values(metrics, "evertick_database_writable") == {(): 0}
    monkeypatch.setattr(app.environment.store, "view", away)
    assert values(metrics, "evertick_database_up") == {(): 0}
    assert values(metrics, "evertick_jobs") == {}


def test_a_registry_learns_nothing_from_the_database_when_it_registers() -> None:
    CollectorRegistry(auto_describe=True).register(Metrics(App("test", database_url="postgresql://127.0.0.1:1/none")))
