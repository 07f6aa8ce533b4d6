"""A week of the shop, simulated by the real engine in a few seconds, for the pages of the demonstration.

It is the last week of March 2026 in Berlin: a supplier's server fails from Thursday on, a schedule is paused, the
clocks go forward at night, and there is an outage in the morning after it. It ends that Sunday at ten.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evertick import App, at, cron, every
from evertick.app.access_control.audit_log import Auditor
from evertick.app.database_clock import Simulation, write_simulation
from evertick.app.schedules.options import CreateOptions, UpdateOptions
from evertick.app.schedules.updates import update
from evertick.base.clock import SystemClock
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import from_datetime
from evertick.demo import shop

if TYPE_CHECKING:
    from evertick.testing.world import World


# -- The people of the demonstration. Like requests to a server, they write a line in the audit log for each change.

REQUEST_PREFIX: Final = "req"
WITHOUT_TENANT: Final = frozenset({"pool", "tenant"})
WITHOUT_BEFORE: Final = frozenset({"schedule.create", "schedule.pause", "schedule.resume", "schedule.trigger"})
"""Actions whose line has no `before`: the schedule's own history has it."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person who has a name on the shop's server."""

    app: App
    name: str

    def does(self, action: str, target: str, *args: Any, **options: Any) -> Any:
        """Change something: `ana.does("schedule.pause", "crm.sync", "the supplier moves")`. Returns the new value.

        `action` is the action in the audit log: a kind of thing, and one of its operations.
        """
        kind, _, operation = action.partition(".")
        auditor = self._auditor(None if kind in WITHOUT_TENANT else DEFAULT_TENANT)
        group = getattr(self.app, f"{kind}s")
        change = getattr(group.operations, operation)
        new_schedule = action == "schedule.create"
        work = change(CreateOptions(target, **options)) if new_schedule else change(target, *args, **options)
        before = None if action in WITHOUT_BEFORE else group.operations.get(target)
        return group.write(auditor.audited(work, action, target, before=before))

    def edits(self, schedule_id: str, **changes: Any) -> None:
        """Change the definition of a schedule."""
        auditor = self._auditor(DEFAULT_TENANT)
        schedules = self.app.schedules
        work, before = (
            update(schedules.operations, UpdateOptions(schedule_id, **changes)),
            schedules.operations.get(schedule_id),
        )
        schedules.write(auditor.audited(work, "schedule.update", schedule_id, before=before))

    def makes_token(self, name: str, *, scope: str) -> None:
        """Create a token of the shop, which does not expire."""
        auditor = self._auditor(DEFAULT_TENANT)
        tokens = self.app.tokens
        work = tokens.operations.create(name, scope=scope, tenant=DEFAULT_TENANT, expires_after=None)
        tokens.write(auditor.audited(work, "token.create", lambda made: made.id))

    def _auditor(self, tenant: TenantId | None) -> Auditor:
        """The auditor of one request. It makes this person the actor of the app's later changes, also in histories."""
        self.app.actor = self.name
        e = self.app.environment
        request = e.ids.make(REQUEST_PREFIX, e.clock.now())
        return Auditor(actor=self.name, request=request, tenant=tenant, now=e.clock.now, make_id=e.ids.make)


BEGIN: Final = datetime(2026, 3, 22, 23, 0, tzinfo=UTC)
OUTAGE: Final = datetime(2026, 3, 29, 5, 41, tzinfo=UTC)
OUTAGE_LASTS: Final = timedelta(minutes=91)
END: Final = datetime(2026, 3, 29, 8, 2, 11, tzinfo=UTC)
SPEED: Final = 60.0
"""The default speed of its clock afterwards."""


def simulate(app: App, path: Path, *, speed: float, report: Callable[[str], object]) -> None:
    """Simulate the week into a new database, whose clock stands at its end. `report` is called for each day."""
    from evertick.testing.world import World

    ana, ben = Person(app, "ana"), Person(app, "ben")
    with World(app, at=BEGIN, seed=7) as world:
        _customers(app)
        _until(world, BEGIN + timedelta(hours=16, minutes=30), report)
        app.workflows.using(key="onboard-grace", attributes={"customer": "grace"}).start(shop.onboard, "grace")
        hugo = app.workflows.using(key="onboard-hugo", attributes={"customer": "hugo"}).start(shop.onboard, "hugo")
        _until(world, datetime(2026, 3, 24, 13, 20, tzinfo=UTC), report)
        ben.does("schedule.pause", "prices south", "their list has yesterday's prices in it")
        _until(world, datetime(2026, 3, 25, 9, 12, tzinfo=UTC), report)
        ben.does("schedule.resume", "prices south", "they say that it is right again")
        ana.does("schedule.pause", "crm.sync", "the supplier moves to a new API")
        ana.does("workflow.cancel", hugo)
        _deliver(world)
        _until(world, datetime(2026, 3, 27, 10, 41, tzinfo=UTC), report)
        ben.edits("tenant-1042/export", note="asked for by the customer on the phone")
        ana.does("pool.set", "mail", running=8)
        _until(world, datetime(2026, 3, 28, 10, 0, tzinfo=UTC), report)
        _deliver(world)
        ben.does("schedule.trigger", "report.daily")
        [failed] = app.jobs.list(function=shop.fetch_prices, state="failed", limit=1).jobs
        ben.does("job.retry", failed.id)
        _until(world, OUTAGE, report)
        world.outage(OUTAGE_LASTS)
        _until(world, END - timedelta(minutes=8), report)
        for number, customer in enumerate(shop.CUSTOMERS):
            later = timedelta(hours=3 + 7 * number)
            app.scheduler.run_after(later, shop.remind, customer, invoice=f"2026-{311 + number}")
        ana.does("job.cancel", app.scheduler.run_after(timedelta(days=2), shop.remind, "nobody", invoice="2026-300"))
        world.advance_to(END)
        world.kill()
        _copy(world.database_url, path)
    stopped = from_datetime(END)
    url = f"sqlite:///{path}"
    write_simulation(url, Simulation(start=stopped, real_start=SystemClock().now(), speed=speed, stopped=stopped))


def _customers(app: App) -> None:
    """Create schedules of customers and people, in addition to those of the code."""
    for tenant, when in (
        ("1042", cron("30 2 * * *", tz="Asia/Kathmandu")),
        ("88", cron("0 18 * * 1-5", tz="America/New_York")),
    ):
        export = shop.export.with_args(f"tenant-{tenant}")
        Person(app, f"customer {tenant}").does("schedule.create", f"tenant-{tenant}/export", when=when, do=export)
    ana = Person(app, "ana")
    ana.makes_token("metrics of the shop", scope="read")
    ana.does("tenant.set", "wholesale", jobs=10_000, running=20)
    app.views.create("schedules", "Crons that fail", {"kind": "cron", "health": "failing"}, shared=True)
    sync_times = [every(hours=5, offset=timedelta(minutes=15)), cron("3 11 * * 5")]
    ana.does("schedule.create", "crm.sync", when=sync_times, do=shop.fetch_prices.with_args("crm"))
    sale = at(datetime(2026, 3, 24, 8, 0, tzinfo=UTC))
    remind = shop.remind.with_args("all", invoice="spring sale")
    ana.does("schedule.create", "spring-sale.open", when=sale, do=remind)
    monday, welcome = "every Monday at 10am, Berlin time", shop.onboard.with_args("finn")
    ana.does("schedule.create", "welcome finn", when=monday, do=welcome, pause_on_failure=True)


def _until(world: "World", end: datetime, report: Callable[[str], object]) -> None:
    """Let time pass day by day; call `report` after each day."""
    while world.now < end:
        midnight = (world.now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        world.advance_to(min(midnight, end))
        if world.now == midnight:
            report(f"{midnight - timedelta(days=1):%a %d %b}")


def _deliver(world: "World") -> None:
    """Signal the delivery of most parcels."""
    for run in world.app.workflows.list("shop.fulfil", limit=1_000, state="pending").runs:
        if run.key is not None and shop.chance("parcel", run.key).random() < 0.8:
            world.app.workflows.signal(run.id, "delivered", {"by": "bicycle"})


def _copy(url: str, path: Path) -> None:
    source = Path(url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(path)) as new:
        old.backup(new)
