"""A clock that was ahead and was set back: the schedule says that it is silent, and counts from now when told to."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from evertick import App, MutationCtx, Overlap, at, every
from evertick.api.reports import Missing
from evertick.schedules import Fate
from tests.schedules.conftest import SetClock

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
OpenApp = Callable[..., App]


def hours(number: float) -> datetime:
    return BEGIN + number * HOUR


def opened(open_app: OpenApp) -> App:
    app = open_app()

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None:
        pass

    app.migrate()
    return app


def ahead_and_back(app: App, clock: SetClock) -> None:
    """An hourly schedule is looked at when the clock says four o'clock; then it is half past midnight."""
    app.schedules.create("s", when=every(hours=1), do="tick", overlap=Overlap.ALLOW_ALL)
    clock.advance(4 * HOUR)
    app.schedules.resume("s")
    clock.advance(-3.5 * HOUR)


def test_it_says_that_it_is_silent_and_until_when(open_app: OpenApp, clock: SetClock) -> None:
    app = opened(open_app)
    ahead_and_back(app, clock)

    told = app.schedules.explain("s", hours(2))

    assert app.schedules.get("s").silent_until == hours(4)
    assert app.schedules.get("s").next == hours(5)
    assert told.checks[-1].name == "clock"
    assert "silent until 2026-01-01T04:00:00Z" in told.sentence
    assert told.fix == "evertick schedule resume s --from-now"


def test_a_plain_resumption_runs_nothing_twice(open_app: OpenApp, clock: SetClock) -> None:
    app = opened(open_app)
    ahead_and_back(app, clock)

    app.schedules.resume("s")
    clock.advance(2 * HOUR)
    app.schedules.resume("s")

    assert len(app.schedules.occurrences("s").occurrences) == 4
    assert app.schedules.get("s").silent_until == hours(4)


def test_told_to_count_from_now_it_runs_each_time_and_the_ledger_keeps_both(open_app: OpenApp, clock: SetClock) -> None:
    app = opened(open_app)
    ahead_and_back(app, clock)

    resumed = app.schedules.resume("s", "the clock is right again", from_now=True)
    assert resumed.next == hours(1)
    assert app.schedules.get("s").silent_until is None
    assert app.schedules.explain("s", hours(2)).missing is Missing.UPCOMING
    clock.advance(5 * HOUR)
    app.schedules.resume("s")

    rows = app.schedules.occurrences("s").occurrences
    assert [row.nominal for row in rows] == [hours(n) for n in (1, 1, 2, 2, 3, 3, 4, 4, 5)]
    assert {row.fate for row in rows} == {Fate.STARTED}
    assert len({row.job_id for row in rows}) == 9
    assert rows[-1].request == ""
    again = app.schedules.explain("s", hours(2))
    assert (again.fate, again.checks[-1].name) == (Fate.STARTED, "ran")


def test_an_end_that_was_reached_too_early_is_taken_back(open_app: OpenApp, clock: SetClock) -> None:
    app = opened(open_app)
    app.schedules.create("s", when=[at(hours(2)), at(hours(3))], do="tick", overlap=Overlap.ALLOW_ALL)
    clock.advance(4 * HOUR)
    app.schedules.resume("s")
    assert app.schedules.get("s").ending is not None
    clock.advance(-3.5 * HOUR)

    app.schedules.resume("s", from_now=True)

    assert app.schedules.get("s").ending is None
    assert app.schedules.get("s").next == hours(2)


def test_counting_from_now_means_nothing_where_the_clock_was_right(open_app: OpenApp, clock: SetClock) -> None:
    app = opened(open_app)
    app.schedules.create("s", when=every(hours=1), do="tick", overlap=Overlap.ALLOW_ALL)
    clock.advance(2.5 * HOUR)

    app.schedules.resume("s", from_now=True)
    clock.advance(HOUR)
    app.schedules.resume("s", from_now=True)

    assert [row.nominal for row in app.schedules.occurrences("s").occurrences] == [hours(n) for n in (1, 2, 3)]
