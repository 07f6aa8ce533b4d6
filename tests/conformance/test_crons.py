"""Crons: definition, next runs, deploys, execution, the cron dialect, and crons registered at run time.

Where Evertick differs from what it follows, the test says so: a row for every skipped time instead of one with a
count, whole results and logs instead of a thousand characters, and a cron dialect that knows more.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from evertick import ActionCtx, App, MutationCtx, cron, daily, every, hourly, monthly, weekly
from evertick.base.errors import AlreadyExists, InvalidSpec, RegistrationError, ScheduleNotFound
from evertick.recurrence import compile_spec
from evertick.schedules import Fate, RunOutcome, Spec
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

START = datetime(2026, 1, 1, tzinfo=UTC)


def seconds(number: float) -> datetime:
    return START + timedelta(seconds=number)


def make(*crons: tuple[str, Spec, str]) -> App:
    """An app with one function of each kind that crons are tested with, and these crons (name, times, function)."""
    app = App("crons")

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None:
        ctx.db.insert("ticks", {})

    @app.mutation(name="throw")
    def throw(ctx: MutationCtx) -> None:
        ctx.db.insert("ticks", {})
        raise ValueError("boom")

    @app.mutation(name="talk")
    def talk(ctx: MutationCtx) -> str:
        ctx.log.info("y" * 3_000)
        return "x" * 5_000

    @app.action(name="slow")
    async def slow(ctx: ActionCtx) -> None:
        await asyncio.sleep(150)

    @app.action(name="brisk")
    async def brisk(ctx: ActionCtx) -> None:
        await asyncio.sleep(3.5)

    @app.mutation(name="register")
    def register(ctx: MutationCtx, name: str, seconds: int | float, line: str | None = None) -> None:
        when = cron(line) if line is not None else every(seconds=cast("int", seconds))
        app.crons.register(ctx, name, when, tick)

    @app.mutation(name="remove")
    def remove(ctx: MutationCtx, name: str) -> None:
        app.crons.delete(ctx, name)

    for name, when, function in crons:
        app.crons.add(name, when, app.functions.resolve(function))
    return app


def rows(app: App, name: str) -> list[tuple[datetime, Fate, RunOutcome | None]]:
    return [(row.nominal, row.fate, row.outcome) for row in app.schedules.occurrences(name).occurrences]


def times(spec: Spec, after: str, number: int) -> list[str]:
    """The next times, as the facts write them."""
    second = int(datetime.fromisoformat(after).timestamp())
    found = compile_spec(spec).preview(number, second)
    return [datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in found]


# -- definition


@fact("cvx-cr-001")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seconds": 0}, "greater than 0"),
        ({"seconds": 1.5}, r"every\(seconds=...\) must be a whole number"),
        ({"minutes": -1}, "greater than 0"),
        ({}, "a length greater than 0"),
    ],
)
def test_an_interval_is_a_whole_number_greater_than_0_of_some_unit(arguments: Any, says: str) -> None:
    """The words differ; several units may be given and add up."""
    with pytest.raises(InvalidSpec, match=says):
        every(**arguments)


@pytest.mark.parametrize(
    "word",
    [
        lambda: hourly(minute=60),
        lambda: daily(hour=24),
        lambda: weekly(day_of_week="someday", hour=0),
        lambda: monthly(day=32, hour=0),
        lambda: monthly(day=0, hour=0),
        lambda: daily(hour=0, minute=60),
    ],
)
def test_named_fields_outside_their_range_are_refused(word: Callable[[], Spec]) -> None:
    with pytest.raises(InvalidSpec):
        word()


@fact("cvx-cr-003")
def test_a_name_is_given_once() -> None:
    with pytest.raises(RegistrationError, match="Cron identifier registered twice: a"):
        make(("a", every(minutes=1), "tick"), ("a", every(minutes=2), "tick"))


# -- next runs


@fact("cvx-cr-005")
def test_an_interval_runs_at_its_first_deploy_and_then_an_interval_later(world: OpenWorld) -> None:
    app = make(("a", every(minutes=1), "tick"))
    w = world(app, at=START)

    assert [row[0] for row in rows(app, "a")] == [START]
    w.advance(60)
    assert [row[0] for row in rows(app, "a")] == [START, seconds(60)]


@fact("cvx-cr-007")
def test_the_next_time_of_a_clock_schedule_is_the_next_one_that_matches() -> None:
    now = "2023-03-01T08:35:00+00:00"

    assert times(hourly(minute=5), now, 1) == ["2023-03-01T09:05:00Z"]
    assert times(cron("0 12 * * 1,5"), now, 1) == ["2023-03-03T12:00:00Z"]


@fact("cvx-cr-009")
def test_the_next_time_is_strictly_after_the_present(world: OpenWorld) -> None:
    app = make(("a", cron("0 10 * * *"), "tick"))
    world(app, at="2026-06-01T10:00:00Z")

    assert app.schedules.get("a").next == datetime(2026, 6, 2, 10, tzinfo=UTC)


# -- deploys


@fact("cvx-cr-010")
def test_a_deploy_tells_what_was_added_updated_and_deleted(world: OpenWorld) -> None:
    w = world(make(("a", every(hours=1), "tick"), ("b", daily(hour=5), "tick")), at=START)
    w.advance(60)
    before = w.app.schedules.get("a")
    app = make(("a", every(hours=1), "tick"), ("b", daily(hour=6), "tick"), ("c", daily(hour=7), "tick"))

    w.deploy(app)

    history = {name: app.schedules.history(name)[0].action for name in "abc"}
    assert history == {"a": "created", "b": "updated", "c": "created"}
    after = app.schedules.get("a")
    assert (after.next, after.recent, after.version) == (before.next, before.recent, before.version)


@fact("cvx-cr-012")
def test_a_daily_cron_turned_into_an_interval_is_due_at_once(world: OpenWorld) -> None:
    w = world(make(("a", daily(hour=20), "tick")), at=START - timedelta(hours=1))
    w.advance(3_600)

    w.deploy(make(("a", every(minutes=5), "tick")))

    assert [row[0] for row in rows(w.app, "a")] == [START]
    assert w.app.schedules.get("a").next == seconds(300)


# -- execution


@fact("cvx-cr-014")
def test_times_that_pass_during_a_run_are_skipped_and_logged(
    world: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """A row and a line of its own for each skipped time, instead of one with their number."""
    app = make(("a", every(minutes=1), "slow"))
    w = world(app, at=START)
    caplog.set_level(logging.WARNING, "evertick.schedules")
    w.advance(179)

    assert rows(app, "a") == [
        (START, Fate.STARTED, RunOutcome.SUCCESS),
        (seconds(60), Fate.SKIPPED, None),
        (seconds(120), Fate.SKIPPED, None),
    ]
    skipped = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert skipped == [
        "Skipping 1 run(s) of a, the first of 2026-01-01T00:01:00Z: a-2026-01-01T00:00:00Z has not ended",
        "Skipping 1 run(s) of a, the first of 2026-01-01T00:02:00Z: a-2026-01-01T00:00:00Z has not ended",
    ]
    assert app.schedules.get("a").next == seconds(180)


@fact("cvx-cr-016")
def test_two_runs_of_a_cron_never_overlap(world: OpenWorld) -> None:
    app = make(("a", every(seconds=1), "brisk"))
    w = world(app, at=START)
    w.advance(30)

    runs = [row for row in app.schedules.occurrences("a", fate="started").occurrences if row.started is not None]
    spans = [(row.started, row.ended) for row in runs]
    assert len(spans) == 8
    for (_, ended), (started, _) in pairwise(spans):
        assert ended is not None
        assert started is not None
        assert ended <= started


@fact("cvx-cr-018")
def test_a_cron_that_throws_has_one_failed_run_a_time_and_goes_on(world: OpenWorld) -> None:
    app = make(("a", every(minutes=1), "throw"))
    w = world(app, at=START)
    w.advance(60)

    assert rows(app, "a") == [
        (START, Fate.STARTED, RunOutcome.FAILED),
        (seconds(60), Fate.STARTED, RunOutcome.FAILED),
    ]
    assert [job.attempt for job in w.jobs("throw")] == [1, 1]
    assert w.query("ticks") == []
    assert app.schedules.get("a").last_failure == "ValueError: boom"
    assert app.schedules.get("a").next == seconds(120)


@fact("cvx-cr-020")
def test_a_write_conflict_is_run_again_and_counts_once(world: OpenWorld) -> None:
    app = make(("a", daily(hour=1), "tick"))
    w = world(app, at=START)
    w.conflict_next(app.functions.resolve("tick"), times=3)

    w.advance(3_700)

    assert rows(app, "a") == [(seconds(3_600), Fate.STARTED, RunOutcome.SUCCESS)]
    assert len(w.query("ticks")) == 1


@fact("cvx-cr-022")
def test_a_runs_result_and_its_lines_are_kept_whole(world: OpenWorld) -> None:
    """Nothing is cut at 1,000 characters: a result may have 1 MB, a run 256 lines of 4,096 characters."""
    app = make(("a", daily(hour=1), "talk"))
    w = world(app, at=START)
    w.advance(3_600)

    job = w.job(app.schedules.get("a").recent[0].job_id or "")
    assert job.result == "x" * 5_000
    assert job.logs == [f"info: {'y' * 3_000}"]
    assert not job.logs_truncated


def test_an_outage_makes_up_the_latest_time_once(world: OpenWorld) -> None:
    app = make(("a", every(minutes=1), "tick"))
    w = world(app, at=START)
    w.kill()
    w.advance(200)
    w.restart()

    assert rows(app, "a") == [
        (START, Fate.STARTED, RunOutcome.SUCCESS),
        (seconds(60), Fate.MISSED, None),
        (seconds(120), Fate.MISSED, None),
        (seconds(180), Fate.STARTED, RunOutcome.SUCCESS),
    ]


# -- the dialect


@fact(
    "cvx-cd-001", "cvx-cd-003", "cvx-cd-005", "cvx-cd-007", "cvx-cd-009", "cvx-cd-011", "cvx-cd-013", "cvx-cd-015",
    "cvx-cd-017", "cvx-cd-019",
)  # fmt: skip
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0 13 * FRI", "2026-01-02 2026-01-09 2026-01-13 2026-01-16"),
        ("0 0 LW * *", "2026-01-30 2026-02-27 2026-03-31 2026-04-30"),
        ("0 0 L-3 * *", "2026-01-28 2026-02-25 2026-03-28 2026-04-27"),
        ("0 0 15W * *", "2026-01-15 2026-02-16 2026-03-16 2026-04-15"),
        ("0 0 * * FRIL", "2026-01-30 2026-02-27 2026-03-27 2026-04-24"),
        ("0 0 * * 1#5", "2026-03-30 2026-06-29 2026-08-31 2026-11-30"),
        ("58/5 * * * *", "2026-01-01T00:58:00Z 2026-01-01T01:58:00Z 2026-01-01T02:58:00Z"),
        (
            "50-10/5 * * * *",
            "2026-01-01T00:05:00Z 2026-01-01T00:10:00Z 2026-01-01T00:50:00Z 2026-01-01T00:55:00Z 2026-01-01T01:00:00Z",
        ),
        ("0 0 29 2 *", "2028-02-29 2032-02-29 2036-02-29"),
        ("00 09 * jan sun", "2026-01-04T09:00:00Z 2026-01-11T09:00:00Z"),
    ],
)
def test_cron_lines_name_these_times(line: str, expected: str) -> None:
    moments = [each if "T" in each else f"{each}T00:00:00Z" for each in expected.split()]

    assert times(cron(line), "2026-01-01T00:00:00+00:00", len(moments)) == moments


@fact("cvx-cd-020")
@pytest.mark.parametrize(
    "line", ["* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "*/0 * * * *", "0 0 * * 8", "nonsense"]
)
def test_lines_outside_the_dialect_are_refused(line: str) -> None:
    with pytest.raises(InvalidSpec):
        cron(line)


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("* * * * * *", "2026-01-01T00:00:01Z"),
        ("@daily", "2026-01-02T00:00:00Z"),
        ("0 0 * * 7", "2026-01-04T00:00:00Z"),
        ("*/60 * * * *", "2026-01-01T01:00:00Z"),
        ("0 0 ? * MON", "2026-01-05T00:00:00Z"),
    ],
)
def test_the_dialect_knows_more_than_the_facts_allow(line: str, first: str) -> None:
    """Seconds, nicknames, 7 for Sunday, `?` and steps beyond the field are common elsewhere and have one meaning."""
    assert times(cron(line), "2026-01-01T00:00:00+00:00", 1) == [first]


# -- at run time


@fact("cvx-cc-001")
def test_a_second_register_a_short_interval_and_a_bad_line_throw_and_leave_no_row(world: OpenWorld) -> None:
    app = make()
    w = world(app, at=START)
    w.call(app.functions.resolve("register"), "x", 60)

    with pytest.raises(AlreadyExists, match="'x'"):
        w.call(app.functions.resolve("register"), "x", 60)
    with pytest.raises(InvalidSpec):
        w.call(app.functions.resolve("register"), "y", 0.999)
    with pytest.raises(InvalidSpec):
        w.call(app.functions.resolve("register"), "y", 60, "nonsense")

    assert [each.id for each in app.schedules.list().schedules] == ["x"]


@fact("cvx-cc-003")
def test_delete_stops_further_runs_and_frees_the_name_and_throws_for_what_is_not_there(world: OpenWorld) -> None:
    app = make()
    w = world(app, at=START)
    w.call(app.functions.resolve("register"), "x", 60)
    w.advance(60)

    w.call(app.functions.resolve("remove"), "x")
    w.advance(300)

    assert len(w.query("ticks")) == 1
    with pytest.raises(ScheduleNotFound):
        w.call(app.functions.resolve("remove"), "x")
    w.call(app.functions.resolve("register"), "x", 60)
