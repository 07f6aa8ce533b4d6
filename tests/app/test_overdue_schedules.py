"""Schedules whose next time has come while nobody looks are seen by everyone who looks whether all is well."""

from collections.abc import Callable

from evertick import App, MutationCtx, every
from evertick.api.status import OverdueView
from evertick.app.status import status_of
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.store.schedule_rows import schedule

ACME = TenantId("acme")


def overdue(app: App, tenant: TenantId | None = None) -> list[OverdueView]:
    """What the status says."""
    now = app.environment.clock.now()
    return list(app.environment.store.view(lambda tx: status_of(tx, tenant, now)).overdue)


def test_times_that_nobody_looks_at_are_late_everywhere(open_app: OpenApp) -> None:
    app = open_app("shop")
    app.migrate()
    app.open()
    now = app.environment.clock.now()
    moments = {"b": 120, "a": 90, "just due": 1, "to come": -3_600}

    def fill(tx: Transaction) -> None:
        for name, ago in moments.items():
            at = Instant(now - ago * SECOND_MS)
            tx.insert_schedule(schedule(name, next_at=at, wake_at=at))
        tx.insert_schedule(schedule("paused", next_at=None, wake_at=None, status="paused"))
        at = Instant(now - 60 * SECOND_MS)
        tx.insert_schedule(schedule("theirs", tenant=ACME, next_at=at, wake_at=at, late=1))

    app.environment.store.write(fill)

    first = to_datetime(Instant(now - 120 * SECOND_MS))
    assert [(each.tenant, each.schedules) for each in overdue(app)] == [("acme", 1), ("default", 2)]
    assert overdue(app, DEFAULT_TENANT) == [OverdueView(tenant=DEFAULT_TENANT, schedules=2, since=first)]
    assert overdue(app, TenantId("calm")) == []
    shown = app.insight.overview()
    assert (shown.overdue_schedules.number, shown.overdue_since, shown.late.number) == (2, first, 0)
    [told] = shown.attention
    assert (told.problem, told.kind, told.name, told.count, told.since) == ("overdue", "schedule", "b", 2, first)
    assert told.what == "due, and no worker has evaluated it, the first of 2 such schedules"
    assert told.why == "no worker is alive"
    late = app.schedules.list_detailed(health="late", sort="next").schedules
    assert [(each.id, each.health) for each in late] == [("b", ("late",)), ("a", ("late",))]
    assert [each.id for each in app.schedules.list(health="late").schedules] == ["a", "b"]
    assert (app.schedules.counts().late.number, app.tenant("acme").schedules.counts().late.number) == (2, 1)


def test_they_are_overdue_until_a_worker_looks(world: Callable[..., World]) -> None:
    app = App("shop")

    @app.mutation
    def bill(ctx: MutationCtx) -> None: ...

    w = world(app)
    app.schedules.create("bills", when=every(seconds=20), do=bill, catch_up="none")
    w.advance(60)
    w.kill()
    w.advance(25)
    assert app.insight.overview().overdue_since is None, "up to ten seconds are in time"
    w.advance(60)

    shown = app.insight.overview()
    assert (shown.overdue_schedules.number, shown.attention[0].problem) == (1, "overdue")
    assert shown.attention[0].what == "due, and no worker has evaluated it"

    w.restart()
    w.advance(1)
    shown = app.insight.overview()
    assert (shown.overdue_schedules.number, shown.overdue_since) == (0, None)
    assert "overdue" not in [each.problem for each in shown.attention]
