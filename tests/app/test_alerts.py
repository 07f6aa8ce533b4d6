"""The shipped alerts, over real scrapes: each fires for its first event ever and for one event a day, and resolves."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evertick import App, MutationCtx, Step, cron
from evertick.base.errors import DatabaseUnavailable
from evertick.metrics import Metrics
from evertick.store.write_health import WriteFailure
from evertick.testing import World, days, hours, minutes
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.prometheus import Alert, Prometheus

STEP = minutes(10)
"""Between scrapes in a story of days."""
NIGHTLY = {"tenant": "default", "schedule": "nightly", "function": "nightly"}
NO_WORKER = Alert("EvertickNoWorker", {}, "No worker is alive, so nothing runs.")
FAILING = Alert("EvertickScheduleFailing", NIGHTLY, "The last run of the schedule nightly (tenant default) failed.")


def missed(count: int) -> Alert:
    """What fires after times of the nightly schedule were missed."""
    return Alert(
        "EvertickOccurrencesMissed",
        NIGHTLY,
        f"{count} times of the schedule nightly (tenant default) have passed without a run; "
        "`evertick schedule audit --from now-30d` lists them.",
    )


def failed(function: str, count: int = 1) -> Alert:
    """What fires while jobs of a function have failed."""
    summary = f"{count} jobs of {function} failed in the last hour; `evertick status` shows why."
    return Alert("EvertickFailures", {"function": function}, summary)


def make_app() -> tuple[App, list[bool]]:
    """An app with a function that a schedule runs each night, and whether it fails."""
    app, fails = App("shop"), [False]

    @app.mutation(name="nightly")
    def nightly(ctx: MutationCtx) -> None:
        if fails[0]:
            raise ValueError("no data")

    @app.mutation(name="work")
    def work(ctx: MutationCtx) -> None: ...

    return app, fails


class Watched:
    """A world whose metrics two workers report."""

    def __init__(self, world: World, *, step: timedelta = minutes(1)) -> None:
        self.world = world
        self.prometheus = Prometheus(step)
        self.restart_workers()
        self.scrape()

    def restart_workers(self) -> None:
        """New processes with the same addresses: their counters begin again."""
        self._metrics = {f"worker-{n}": Metrics(self.world.app) for n in (1, 2)}

    def scrape(self) -> datetime:
        """Each worker, now."""
        for instance, metrics in self._metrics.items():
            self.prometheus.scrape(self.world.now, metrics.text(), instance=instance)
        return self.world.now

    def expect(self, *alerts: Alert) -> None:
        """These alerts fire at the next scrape, and no others."""
        self.prometheus.expect(self.scrape(), *alerts)

    def minutes(self, number: int) -> None:
        """Let time pass with a scrape in each minute."""
        for _ in range(number):
            self.world.advance(minutes(1))
            self.scrape()


@pytest.mark.long
def test_two_days_without_trouble_fires_nothing(tmp_path: Path) -> None:
    app, _ = make_app()
    with World(app) as world:
        app.schedules.create("nightly", when=cron("0 3 * * *"), do="nightly")
        watched = Watched(world, step=STEP)
        for _ in range(2):
            world.advance(hours(23))
            watched.expect()
            world.advance(hours(1))
            watched.restart_workers()
            watched.expect()

    watched.prometheus.check(tmp_path)


@pytest.mark.long
def test_the_first_missed_times_ever_fire_when_a_worker_finds_them(tmp_path: Path) -> None:
    """They are found as the worker starts, before its first scrape; then a backfill runs them."""
    app, _ = make_app()
    with World(app) as world:
        app.schedules.create("nightly", when=cron("0 3 * * *"), do="nightly", catch_up="none")
        watched = Watched(world, step=STEP)
        world.kill()
        world.advance(days(3) + hours(12))
        world.restart()
        watched.restart_workers()
        world.advance(STEP)
        watched.expect(missed(4))

        app.schedules.backfill("nightly", world.now - days(4), world.now, overlap="buffer_all")
        world.advance(STEP)
        watched.expect()

    watched.prometheus.check(tmp_path)


def test_missed_times_of_one_outage_fire_for_a_day(tmp_path: Path) -> None:
    app, _ = make_app()
    with World(app) as world:
        app.schedules.create("nightly", when=cron("0 3 * * *"), do="nightly", catch_up="none")
        watched = Watched(world, step=STEP)
        world.kill()
        world.advance(hours(4))
        world.restart()
        world.advance(STEP)
        watched.expect(missed(1))
        world.advance(hours(23) + minutes(40))
        watched.expect(missed(1))
        world.advance(minutes(20))
        watched.expect()

    watched.prometheus.check(tmp_path)


@pytest.mark.long
def test_a_schedule_that_fails_each_night_fires_from_its_first_run_until_one_succeeds(tmp_path: Path) -> None:
    app, fails = make_app()
    with World(app) as world:
        app.schedules.create("nightly", when=cron("0 3 * * *"), do="nightly")
        watched = Watched(world, step=STEP)
        fails[0] = True
        for _ in range(2):
            world.advance(hours(3) + STEP)
            watched.expect(FAILING, failed("nightly"))
            watched.restart_workers()
            world.advance(hours(2))
            watched.expect(FAILING)
            world.advance(hours(19) - STEP)
            watched.expect(FAILING)
        fails[0] = False
        world.advance(hours(3) + STEP)
        watched.expect()

    watched.prometheus.check(tmp_path)


def test_the_first_failed_job_ever_fires_for_an_hour_or_until_it_is_run_again(tmp_path: Path) -> None:
    app, fails = make_app()
    with World(app) as world:
        watched = Watched(world, step=STEP)
        fails[0] = True
        first = app.scheduler.run_after(0, "nightly")
        world.advance(STEP)
        watched.expect(failed("nightly"))
        fails[0] = False
        app.jobs.retry(first)
        world.advance(STEP)
        watched.expect()

        fails[0] = True
        app.scheduler.run_after(0, "nightly")
        world.advance(STEP)
        watched.expect(failed("nightly"))
        world.advance(hours(1))
        watched.expect()

    watched.prometheus.check(tmp_path)


def test_few_failures_among_many_attempts_fire_nothing(open_app: OpenApp, tmp_path: Path) -> None:
    app, metrics, prometheus = open_app("shop"), None, Prometheus()

    @app.mutation(name="send")
    def send(ctx: MutationCtx, address: str) -> None:
        assert address

    metrics = Metrics(app)
    at = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    with Engine(app) as engine:
        for minute, addresses in enumerate(([""], ["ada"] * 3, ["ada"] * 40)):
            for job in [app.scheduler.run_after(0, "send", address) for address in addresses]:
                engine.wait(job)
            prometheus.scrape(at + minutes(minute), metrics.text())
            prometheus.expect(at + minutes(minute), *([failed("send")] if minute < 2 else []))

    prometheus.check(tmp_path)


@pytest.mark.long
def test_more_schedules_than_are_named_share_one_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.app.measures.SCHEDULES_MAX", 1)
    app, fails = make_app()
    with World(app) as world:
        for name in ("nightly", "other", "third"):
            app.schedules.create(name, when=cron("0 3 * * *"), do="nightly", catch_up="none")
        watched = Watched(world, step=STEP)
        fails[0] = True
        world.advance(hours(3) + STEP)
        watched.expect(
            FAILING,
            failed("nightly", 3),
            Alert(
                "EvertickScheduleFailing",
                {},
                "The last runs of more schedules failed; `evertick schedule list -q health:failing` lists them.",
            ),
        )
        fails[0] = False
        world.kill()
        world.advance(days(1))
        world.restart()
        world.advance(STEP)
        watched.expect(
            FAILING,
            Alert(
                "EvertickScheduleFailing",
                {},
                "The last runs of more schedules failed; `evertick schedule list -q health:failing` lists them.",
            ),
            missed(1),
            Alert(
                "EvertickOccurrencesMissed",
                {},
                "More schedules have missed times; `evertick schedule list -q health:missed` lists them.",
            ),
        )

    watched.prometheus.check(tmp_path)


def test_without_a_worker_what_waits_fires_and_resolves_with_one(tmp_path: Path) -> None:
    """The metrics are those of a server then."""
    app, _ = make_app()
    with World(app) as world:
        app.schedules.create("hourly", when=cron("0 * * * *"), do="nightly")
        watched = Watched(world)
        world.kill()
        watched.minutes(7)
        watched.expect(NO_WORKER)
        app.scheduler.run_after(0, "work")
        watched.minutes(7)
        watched.expect(NO_WORKER, jobs_late("7m 0s"))
        world.advance_to("2026-01-01T01:01:00Z")
        watched.minutes(7)
        watched.expect(NO_WORKER, jobs_late("1h 1m 0s"), schedules_late("8m 0s"))
        world.restart()
        watched.minutes(1)
        watched.expect()

    watched.prometheus.check(tmp_path)


def jobs_late(duration: str) -> Alert:
    """What fires while due jobs wait."""
    summary = f"The oldest due job has waited for {duration} although a worker could run it."
    return Alert("EvertickJobsLate", {}, summary)


def schedules_late(duration: str) -> Alert:
    """What fires while due schedules wait."""
    return Alert("EvertickSchedulesLate", {}, f"A schedule has waited for {duration}; does a worker run?")


def test_a_job_that_no_worker_knows_fires(tmp_path: Path) -> None:
    app, _ = make_app()
    with World(app) as world:
        watched = Watched(world)
        app.scheduler.run_after(minutes(1), "work")
        world.deploy(App("shop"))
        watched.restart_workers()
        watched.minutes(13)
        watched.expect(
            Alert(
                "EvertickJobsBlocked",
                {"app": "shop", "function": "work", "pool": "default"},
                "No live worker runs work in the pool default.",
            )
        )
        world.deploy(app)
        watched.restart_workers()
        watched.minutes(1)
        watched.expect()

    watched.prometheus.check(tmp_path)


def test_a_run_that_does_not_fit_its_code_fires(tmp_path: Path) -> None:
    before, after = App("shop"), App("shop")

    @before.workflow(name="order")
    async def order(step: Step) -> str:
        return str(await step.wait_for("packed"))

    @after.workflow(name="order")
    async def changed(step: Step) -> str:
        await step.sleep(timedelta(days=1))
        return ""

    with World(before) as world:
        watched = Watched(world)
        run = before.workflows.start(order)
        watched.minutes(1)
        before.workflows.signal(run, "packed", "yes")
        world.deploy(after)
        watched.restart_workers()
        world.advance(5)
        watched.minutes(12)
        summary = "1 runs of order cannot continue; `evertick status` shows why."
        watched.expect(Alert("EvertickRunsStuck", {"function": "order"}, summary))
        world.deploy(before)
        watched.restart_workers()
        watched.minutes(2)
        watched.expect()

    watched.prometheus.check(tmp_path)


AWAY = Alert("EvertickDatabaseAway", {}, "The database cannot be read, or no process reports its metrics.")


@pytest.mark.parametrize(
    ("breaks", "expected"),
    [
        ("view", [NO_WORKER, AWAY]),
        ("process", [NO_WORKER, AWAY]),
        (
            "write_failure",
            [
                Alert(
                    "EvertickDatabaseNotWritable",
                    {},
                    "The database can be read but not written, so nothing runs; `evertick doctor --fleet` shows why.",
                )
            ],
        ),
    ],
)
def test_a_database_that_is_away_fires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str, expected: list[Alert]
) -> None:
    app, _ = make_app()

    def away(*_: Any) -> None:
        raise DatabaseUnavailable("away")

    broken: dict[str, Callable[..., Any]] = {"view": away, "write_failure": lambda: WriteFailure("full", "full", 0)}
    with World(app) as world:
        watched = Watched(world)
        with monkeypatch.context() as patch:
            if breaks == "process":
                world.advance(minutes(1))
                for instance in ("worker-1", "worker-2"):
                    watched.prometheus.scrape(world.now, None, instance=instance)
                world.advance(minutes(6))
                watched.prometheus.expect(world.now, *expected)
            else:
                patch.setattr(app.environment.store, breaks, broken[breaks])
                watched.minutes(7)
                watched.expect(*expected)
        watched.minutes(1)
        watched.expect()

    watched.prometheus.check(tmp_path)
