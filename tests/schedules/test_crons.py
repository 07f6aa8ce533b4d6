"""Crons in code: synchronised when a worker starts, and like any schedule from then on."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evertick import App, CatchUp, MutationCtx, Overlap, Retry, Settings, cron, daily, every
from evertick.base.errors import InvalidSpec, Misuse, RegistrationError
from evertick.base.ids import DEFAULT_TENANT
from evertick.schedules import Reason, Spec
from evertick.testing import World

OpenWorld = Callable[..., World]

START = datetime(2026, 1, 1, tzinfo=UTC)


def minutes(number: float) -> datetime:
    return START + timedelta(minutes=number)


def code(*crons: tuple[str, Spec], name: str = "code", seconds: int = 0) -> App:
    """An app whose code declares these crons, all of which run `tick` with their name."""
    app = App(name)

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx, name: str = "") -> str:
        ctx.db.insert("ticks", {"name": name})
        return name

    for cron_name, when in crons:
        app.crons.add(cron_name, when, tick, cron_name)
    return app


def nominal(app: App, name: str) -> list[datetime]:
    return [row.nominal for row in app.schedules.occurrences(name).occurrences]


def test_an_interval_runs_first_when_it_is_deployed_and_others_at_their_time(world: OpenWorld) -> None:
    app = code(
        ("often", every(minutes=1)), ("grid", every(minutes=1, offset=timedelta(seconds=5))), ("noon", daily(hour=12))
    )
    w = world(app, at="2026-01-01T00:00:07.250Z")
    w.advance(61)

    at_once = [START + timedelta(seconds=7), START + timedelta(seconds=67)]
    assert nominal(app, "often") == at_once
    assert nominal(app, "grid") == [START + timedelta(seconds=65)]
    assert nominal(app, "noon") == []
    assert app.schedules.get("noon").next == START + timedelta(hours=12)


def test_a_cron_is_declared_with_a_sentence(world: OpenWorld) -> None:
    app = App("sentences")

    @app.mutation
    def tick(ctx: MutationCtx) -> None: ...

    app.crons.add("noon", "every day at noon, Berlin time", tick)
    app.crons.add("line", "0 12 * * *", tick)
    with pytest.raises(InvalidSpec, match="neither a sentence nor a cron line"):
        app.crons.add("later", "every now and then", tick)
    world(app, at="2026-01-01T00:00:00Z")
    assert app.schedules.get("noon").next == START + timedelta(hours=11)
    assert app.schedules.get("line").next == START + timedelta(hours=12)


def test_a_cron_is_a_schedule_that_skips_overlaps_and_catches_up_with_the_latest(world: OpenWorld) -> None:
    app = code(("c", cron("*/5 * * * *")))
    w = world(app)
    w.kill()
    w.advance(16 * 60)
    w.restart()

    described = app.schedules.get("c")

    assert (described.kind, described.source, described.target.args) == ("cron", "code", {"name": "c"})
    assert (described.policies.overlap, described.policies.catch_up) == (Overlap.SKIP, CatchUp.LATEST)
    reasons = [row.reason for row in app.schedules.occurrences("c").occurrences]
    assert reasons == [Reason.CATCH_UP_LATEST, Reason.CATCH_UP_LATEST, Reason.CAUGHT_UP]
    assert len(w.query("ticks")) == 1


def test_options_come_from_using(world: OpenWorld) -> None:
    app = App("options")

    @app.mutation
    def tick(ctx: MutationCtx) -> None:
        raise ValueError

    careful = app.crons.using(overlap=Overlap.BUFFER_ONE, retry=Retry(2, first=1), note="tea time")
    careful.using(catch_up="all", catch_up_window=600).add("c", every(hours=1), tick)
    w = world(app)
    w.advance(5)

    described = app.schedules.get("c")
    assert (described.policies.overlap, described.policies.catch_up) == (Overlap.BUFFER_ONE, CatchUp.ALL)
    assert (described.policies.catch_up_window_ms, described.note) == (600_000, "tea time")
    assert [job.failures for job in w.jobs()] == [2]


def test_a_deploy_adds_updates_and_deletes_and_leaves_the_rest_alone(
    world: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    w = world(code(("a", every(minutes=10)), ("b", daily(hour=5)), ("d", daily(hour=6))))
    w.advance(5 * 60)
    next_of_a = w.app.schedules.get("a").next
    caplog.set_level(logging.INFO, "evertick.schedules")
    caplog.clear()

    w.deploy(code(("a", every(minutes=10)), ("b", daily(hour=7)), ("c", daily(hour=8))))

    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "cron added: c: at 08:00 every day",
        "cron updated: b: at 07:00 every day",
        "cron deleted: d; if it was renamed, the new cron starts without its history and missed times",
    ]
    now = {str(each.id): each for each in w.app.schedules.list(kind="cron").schedules}
    assert list(now) == ["a", "b", "c"]
    assert (now["a"].next, now["a"].version) == (next_of_a, 1)
    assert now["b"].next == START + timedelta(hours=7)
    line = w.app.schedules.history("b")[0]
    assert (line.action, line.actor) == ("updated", "code of code")
    assert line.detail == "times: at 05:00 every day -> at 07:00 every day"
    assert w.app.schedules.history("d")[0].action == "deleted"
    assert w.app.sync_crons().unchanged == ("a", "b", "c")


def test_a_cron_turned_into_an_interval_is_due_at_once_as_a_new_one_would_be(world: OpenWorld) -> None:
    w = world(code(("c", daily(hour=20))))
    w.advance(90)

    w.deploy(code(("c", every(minutes=5))))
    w.advance(301)

    assert nominal(w.app, "c") == [minutes(1.5), minutes(6.5)]


def test_another_function_or_policy_keeps_the_next_run(world: OpenWorld) -> None:
    w = world(code(("c", every(minutes=10))))
    w.advance(60)
    changed = App("code")

    @changed.mutation(name="other")
    def other(ctx: MutationCtx) -> None:
        ctx.db.insert("others", {})

    changed.crons.using(overlap="allow_all").add("c", every(minutes=10), other)
    w.deploy(changed)
    w.advance(600)

    assert nominal(changed, "c") == [minutes(0), minutes(10)]
    assert len(w.query("others")) == 1
    assert changed.schedules.get("c").policies.overlap is Overlap.ALLOW_ALL


def test_a_restart_keeps_the_pause_the_counters_and_the_cadence(world: OpenWorld) -> None:
    w = world(code(("c", every(minutes=1))))
    w.advance(90)
    w.app.schedules.pause("c", "holiday")
    w.deploy(code(("c", every(minutes=1))))
    w.advance(60)

    described = w.app.schedules.get("c")
    assert (described.status, described.note, described.actions) == ("paused", "holiday", 2)
    w.app.schedules.resume("c")
    assert w.app.schedules.get("c").next == minutes(3)


def test_a_deploy_without_a_cron_cancels_its_run_that_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before, after = code(("a", daily(hour=5))), code()
    before.sync_crons()
    job_id = before.schedules.trigger("a").job_id

    after.sync_crons()

    assert job_id is not None
    job = after.environment.store.read(lambda transaction: transaction.get_job(job_id, tenant=DEFAULT_TENANT))
    assert job is not None
    assert job.state == "canceled"
    before.close()
    after.close()


def test_a_cron_names_its_function_as_text_too(
    world: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # in which the second app has its database
    app = code()
    app.crons.add("by name", every(minutes=1), "tick", "x")

    w = world(app)
    w.advance(90)

    assert [each["name"] for each in w.query("ticks")] == ["x", "x"]
    unknown = code()
    unknown.crons.add("by name", every(minutes=1), "tock", "x")
    with pytest.raises(RegistrationError, match="cron 'by name': no function 'tock' is registered; did you mean tick"):
        unknown.sync_crons()


def test_only_crons_of_this_app_are_deleted(world: OpenWorld) -> None:
    w = world(code(("mine", daily(hour=5)), name="first"))
    w.app.schedules.create("by hand", when=daily(hour=5), do="tick")

    w.deploy(code(("other", daily(hour=5)), name="second"))

    assert [each.id for each in w.app.schedules.list().schedules] == ["by hand", "mine", "other"]


@pytest.mark.parametrize("name", ["mine", "by hand"])
def test_a_cron_does_not_take_a_name_that_something_else_has(world: OpenWorld, name: str) -> None:
    w = world(code(("mine", daily(hour=5)), name="first"))
    w.app.schedules.create("by hand", when=daily(hour=5), do="tick")
    before = w.app.schedules.get(name)

    with pytest.raises(RegistrationError, match="has that name; choose another one"):
        w.deploy(code((name, daily(hour=6)), name="second"))

    assert w.app.schedules.get(name) == before


def test_a_cron_of_the_code_is_changed_in_the_code(world: OpenWorld) -> None:
    w = world(code(("c", every(minutes=1))))

    with pytest.raises(Misuse, match="declared in the code of the app 'code'"):
        w.app.schedules.update("c", overlap="allow_all")
    with pytest.raises(Misuse, match="declared in the code"):
        w.app.schedules.replace("c", when=every(hours=1), do="tick")
    assert w.app.schedules.trigger("c", overlap="allow_all").ended is None
    assert w.app.schedules.pause("c", "x").status == "paused"


@pytest.mark.parametrize("name", ["", " ", "tee\n", "Tür", 7])
def test_a_name_is_made_of_printable_ascii(name: Any) -> None:
    with pytest.raises(RegistrationError, match="printable ASCII"):
        code((name, every(minutes=1)))


def test_a_name_is_given_once() -> None:
    with pytest.raises(RegistrationError, match="Cron identifier registered twice: c"):
        code(("c", every(minutes=1)), ("c", every(minutes=2)))


def test_what_is_no_function_of_the_app_is_refused() -> None:
    app = App("x")

    with pytest.raises(RegistrationError, match="is neither a function of an app nor a name"):
        app.crons.add("c", every(minutes=1), print)  # type: ignore[arg-type]


def test_a_cron_that_cannot_work_stops_the_start_and_is_named() -> None:
    app = App("x", database_url="sqlite://")

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx, n: int) -> None: ...

    app.crons.add("wrong arguments", every(minutes=1), tick, "many")  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match=r"cron 'wrong arguments': .*valid integer"):
        app.worker()
    app.close()


def test_a_cron_that_never_fires_or_fires_too_often_stops_the_start(world: OpenWorld) -> None:
    with pytest.raises(RegistrationError, match="cron 'c': the spec never fires"):
        world(code(("c", cron("0 0 31 2 *"))))
    with pytest.raises(RegistrationError, match=r"cron 'c': .* closer than 5m"):
        world(code(("c", every(minutes=1))), settings=Settings(schedule_interval_min=timedelta(minutes=5)))


def test_a_program_that_starts_a_worker_synchronises_its_crons(tmp_path: Path) -> None:
    app = App("x", database_url=f"sqlite:///{tmp_path}/x.db")

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None: ...

    app.crons.add("c", every(minutes=1), tick)
    app.worker()

    assert [each.id for each in app.schedules.list(kind="cron").schedules] == ["c"]
    assert [each.sentence for each in app.crons.declared] == ["every minute"]
    app.close()


def test_words_are_checked_where_they_are_written() -> None:
    with pytest.raises(InvalidSpec, match="greater than 0"):
        every(seconds=0)
    with pytest.raises(InvalidSpec, match="whole number"):
        every(seconds=1.5)  # type: ignore[arg-type]


def test_the_last_runs_of_a_cron_are_found_with_their_lines(world: OpenWorld) -> None:
    app = App("lines")

    @app.mutation(name="talk")
    def talk(ctx: MutationCtx, name: str) -> None:
        ctx.log.info("hello %s", name)

    app.crons.add("c", every(minutes=1), talk, name="ada")
    w = world(app)
    w.advance(61)

    jobs = [w.job(row.job_id or "") for row in app.schedules.get("c").recent]
    assert [job.logs for job in jobs] == [["info: hello ada"]] * 2


def test_what_is_declared_while_a_worker_runs_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A worker reads declarations at its start: without a report they would be missing silently."""
    app = App("late", database_url=f"sqlite:///{tmp_path}/late.db")
    app.mutation(name="tick")(lambda ctx: None)
    app.crons.add("early", every(hours=1), "tick")
    with app.running():
        app.crons.add("late", every(hours=1), "tick")
        app.pool("later", running=1)
        reported = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert [each.id for each in app.schedules.list()] == ["early"]
        app.sync_crons()
        assert [each.id for each in app.schedules.list()] == ["early", "late"]
    app.close()

    assert reported == [
        "cron late is declared after the worker of this program has started: it runs after app.sync_crons(), or from "
        "the next start of a worker",
        "pool later is declared after the worker of this program has started: its limits are written by "
        "app.sync_pools(), or at the next start of a worker",
    ]
