"""Schedules inside transactions: with a mutation or not at all, and right under concurrency, on both databases."""

import contextlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from evertick import App, MutationCtx, QueryCtx, every
from evertick.base.errors import AlreadyExists, ScheduleNotFound, VersionConflict
from evertick.functions import Mutation
from evertick.schedules import Fate, OccurrenceView
from tests.schedules.conftest import SetClock

OpenApp = Callable[..., App]

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def with_tick(app: App) -> Mutation[[], None]:
    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None:
        ctx.db.insert("ticks", {})

    return tick


def at_once(number: int, work: Callable[[int], object]) -> list[object]:
    """What `number` threads answer that do the work at the same time; errors are answers, too."""
    barrier = threading.Barrier(number)
    answers: list[object] = [None] * number

    def run(place: int) -> None:
        barrier.wait()
        try:
            answers[place] = work(place)
        except Exception as error:
            answers[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_a_schedule_is_created_with_its_mutation_or_not_at_all(open_app: OpenApp) -> None:
    app = open_app()
    tick = with_tick(app)

    @app.mutation
    def plan(ctx: MutationCtx, raising: bool) -> str:
        ctx.db.insert("plans", {})
        made = ctx.schedules.create("s", when=every(minutes=1), do=tick, trigger=True)
        if raising:
            raise ValueError("after all not")
        return made.id

    with pytest.raises(ValueError, match="after all not"):
        app.call(plan, raising=True)
    assert app.schedules.list().schedules == ()
    with pytest.raises(ScheduleNotFound):
        app.schedules.history("s")
    assert app.schedules.occurrences().occurrences == ()

    assert app.call(plan, raising=False) == "s"
    assert [each.id for each in app.schedules.list().schedules] == ["s"]
    assert app.schedules.history("s")[0].actor.startswith("function ")


def test_an_inner_mutation_that_raises_takes_back_its_schedules_alone(open_app: OpenApp) -> None:
    app = open_app()
    tick = with_tick(app)

    @app.mutation
    def inner(ctx: MutationCtx) -> None:
        ctx.schedules.create("inner", when=every(minutes=1), do=tick)
        ctx.schedules.pause("outer", "by the inner one")
        raise ValueError

    @app.mutation
    def outer(ctx: MutationCtx) -> list[str]:
        ctx.db.insert("notes", {"text": "kept"})
        ctx.schedules.create("outer", when=every(minutes=1), do=tick)
        with contextlib.suppress(ValueError):
            ctx.run_mutation(inner)
        return [each.id for each in ctx.schedules.list().schedules]

    assert app.call(outer) == ["outer"]
    assert app.schedules.get("outer").status == "active"


def test_a_query_reads_schedules_and_has_no_words_to_change_them(open_app: OpenApp) -> None:
    app = open_app()
    tick = with_tick(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    @app.query
    def sentences(ctx: QueryCtx) -> list[str]:
        return [ctx.schedules.get("s").sentence, str(hasattr(ctx.schedules, "create"))]

    assert app.call(sentences) == ["every minute", "False"]


def test_time_stands_still_for_schedules_in_a_mutation(open_app: OpenApp, clock: SetClock) -> None:
    app = open_app()
    tick = with_tick(app)

    @app.mutation
    def plan(ctx: MutationCtx) -> datetime:
        clock.advance(MINUTE)
        return ctx.schedules.create("s", when=every(minutes=1), do=tick).created

    assert app.call(plan) == START


def test_of_several_that_create_the_same_schedule_one_does(open_app: OpenApp) -> None:
    app = open_app()
    tick = with_tick(app)
    app.schedules.list()

    same = at_once(6, lambda place: app.schedules.create("same", when=every(minutes=1), do=tick).version)
    other = at_once(6, lambda place: app.schedules.create("other", when=every(minutes=1 + place), do=tick).version)

    assert same == [1] * 6
    assert [line.action for line in app.schedules.history("same")] == ["created"]
    assert sum(isinstance(answer, AlreadyExists) for answer in other) == 5


def test_of_several_updates_of_one_version_one_wins(open_app: OpenApp) -> None:
    app = open_app()
    tick = with_tick(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    answers = at_once(6, lambda place: app.schedules.update("s", if_version=1, note=f"by {place}").version)

    assert sorted(str(answer) for answer in answers if isinstance(answer, int)) == ["2"]
    assert sum(isinstance(answer, VersionConflict) for answer in answers) == 5


def test_triggers_at_the_same_time_each_have_their_row(open_app: OpenApp) -> None:
    app = open_app()
    tick = with_tick(app)
    app.schedules.create("s", when=every(hours=1), do=tick)

    answers = at_once(6, lambda place: app.schedules.trigger("s", overlap="allow_all", request_id=f"r{place}").fate)

    assert answers == [Fate.STARTED] * 6
    assert len(app.schedules.occurrences("s").occurrences) == 6
    assert app.schedules.get("s").actions == 6


def test_workers_that_start_together_synchronise_crons_once(open_app: OpenApp) -> None:
    app = open_app()
    tick = with_tick(app)
    for number in range(5):
        app.crons.add(f"c{number}", every(minutes=1 + number), tick)
    app.schedules.list()

    changes = at_once(4, lambda place: app.sync_crons())

    assert not [answer for answer in changes if isinstance(answer, Exception)]
    assert [len(app.schedules.history(f"c{number}")) for number in range(5)] == [1] * 5


def test_what_is_asked_reads_the_same_on_both_databases(open_app: OpenApp, clock: SetClock) -> None:
    app = open_app()
    tick = with_tick(app)
    for number in range(5):
        app.schedules.create(f"s{number}", when=every(minutes=5 - number), do=tick, overlap="allow_all")
    app.schedules.pause("s1", "rests")
    clock.advance(10.5 * MINUTE)
    app.schedules.pause_all("look at all of them")
    app.schedules.resume_all()

    pages: list[OccurrenceView] = []
    cursor = None
    while True:
        page = app.schedules.occurrences(limit=7, cursor=cursor, newest_first=True)
        pages += page.occurrences
        cursor = page.cursor
        if cursor is None:
            break
    by_next = app.schedules.list(sort="next", limit=2)
    rest = app.schedules.list(sort="next", limit=9, cursor=by_next.cursor)

    assert len(pages) == 2 + 2 + 3 + 5 + 10
    assert [(row.nominal, row.schedule) for row in pages] == sorted(
        ((row.nominal, row.schedule) for row in pages), reverse=True
    )
    assert {row.reason.value for row in pages if row.schedule == "s1"} == {"paused"}
    assert [each.id for each in by_next.schedules + rest.schedules] == ["s4", "s1", "s2", "s3", "s0"]
    report = app.schedules.audit(START, START + 11 * MINUTE)
    assert (report.started + report.late_count, report.skipped_count, report.unrecorded) == (20, 2, ())
    told = app.schedules.explain("s3", START + 4 * MINUTE)
    assert told.sentence.startswith("started 6 min 30 s late as s3-2026-01-01T00:04:00Z")
    assert app.schedules.delete_all(function="tick") == 5
