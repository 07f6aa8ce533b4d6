"""Crons that functions register at run time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, SyncActionCtx, cron, daily, every
from evertick.base.errors import AlreadyExists, InvalidSpec, Misuse, ScheduleNotFound
from evertick.testing import World

OpenWorld = Callable[..., World]

START = datetime(2026, 1, 1, tzinfo=UTC)

app = App("registering")


@app.mutation(name="tick")
def tick(ctx: MutationCtx, n: int) -> None:
    ctx.db.insert("ticks", {"n": n})


@app.mutation(name="register")
def register(ctx: MutationCtx, name: str, seconds: int, raising: bool = False) -> str:
    made = app.crons.register(ctx, name, every(seconds=seconds), tick, 7)
    if raising:
        raise ValueError("after all not")
    return made


@app.mutation(name="register_line")
def register_line(ctx: MutationCtx, name: str, line: str) -> str:
    return app.crons.register(ctx, name, cron(line), tick, 7)


@app.mutation(name="remove")
def remove(ctx: MutationCtx, name: str) -> None:
    app.crons.delete(ctx, name)


@app.query(name="names")
def names(ctx: QueryCtx) -> list[str]:
    return [each.id for each in app.crons.list(ctx)]


@app.query(name="sentence")
def sentence(ctx: QueryCtx, name: str) -> str | None:
    found = app.crons.get(ctx, name)
    return None if found is None else found.sentence


@app.action(name="in_thread")
def in_thread(ctx: SyncActionCtx) -> list[str]:
    app.crons.register(ctx, "threaded", every(minutes=1), tick, 1)
    return [each.id for each in app.crons.list(ctx)]


@app.action(name="on_loop")
async def on_loop(ctx: ActionCtx) -> None:
    context: Any = ctx
    app.crons.register(context, "x", every(minutes=1), tick, 1)


app.crons.add("of the code", daily(hour=5), tick, 1)


def test_a_registered_interval_runs_when_it_has_passed_once(world: OpenWorld) -> None:
    w = world(app, at="2026-01-01T00:00:10Z")
    assert w.call(register, "mine", 60) == "mine"

    w.advance(125)

    rows = app.schedules.occurrences("mine").occurrences
    assert [row.nominal for row in rows] == [START + timedelta(seconds=70), START + timedelta(seconds=130)]
    assert [each["n"] for each in w.query("ticks")] == [7, 7]


def test_they_are_listed_and_asked_by_name_beside_those_of_the_code(world: OpenWorld) -> None:
    w = world(app)
    w.call(register, "mine", 60)

    assert w.call(names) == ["mine"]
    assert w.call(sentence, "mine") == "every minute, counted from 1 January 2026 at 00:00"
    assert w.call(sentence, "nobody") is None
    assert w.call(sentence, "of the code") is None


def test_a_taken_name_a_bad_interval_and_a_bad_line_throw_and_leave_no_row(world: OpenWorld) -> None:
    w = world(app)
    w.call(register, "mine", 60)

    with pytest.raises(AlreadyExists, match="the name 'mine' already exists"):
        w.call(register, "mine", 30)
    with pytest.raises(AlreadyExists, match="'of the code'"):
        w.call(register, "of the code", 30)
    with pytest.raises(InvalidSpec):
        w.call(register, "other", 0)
    with pytest.raises(InvalidSpec):
        w.call(register_line, "other", "nonsense")
    with pytest.raises(InvalidSpec, match="never"):
        w.call(register_line, "other", "0 0 31 2 *")

    assert w.call(names) == ["mine"]


def test_registration_is_undone_with_its_mutation(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(ValueError, match="after all not"):
        w.call(register, "mine", 60, raising=True)

    assert w.call(names) == []
    with pytest.raises(ScheduleNotFound, match="no schedule 'mine'"):
        app.schedules.history("mine")


def test_deleting_stops_further_runs_also_one_that_waits_and_frees_the_name(world: OpenWorld) -> None:
    w = world(app)
    w.call(register, "mine", 60)
    w.advance(60)
    app.schedules.trigger("mine", overlap="allow_all")

    w.call(remove, "mine")
    w.advance(300)

    assert len(w.query("ticks")) == 1
    assert w.call(register, "mine", 60) == "mine"
    with pytest.raises(ScheduleNotFound, match="no cron 'other' is registered"):
        w.call(remove, "other")
    with pytest.raises(Misuse, match="declared in code"):
        w.call(remove, "of the code")


def test_a_deploy_leaves_them_alone(world: OpenWorld) -> None:
    w = world(app)
    w.call(register, "mine", 60)

    w.restart()

    assert w.call(names) == ["mine"]


def test_a_plain_action_registers_in_a_transaction_of_its_own_and_an_async_one_is_told_how(world: OpenWorld) -> None:
    w = world(app)

    assert w.call(in_thread) == ["threaded"]
    with pytest.raises(Misuse, match="run_mutation"):
        w.call(on_loop)


def test_an_interval_registered_within_a_second_first_runs_after_one_full_interval(world: OpenWorld) -> None:
    w = world(app, at="2026-01-01T00:00:03.4Z")
    w.call(register, "mine", 60)
    assert app.schedules.get("mine").silent_until is None

    w.advance(125)

    rows = app.schedules.occurrences("mine").occurrences
    assert [row.nominal for row in rows] == [START + timedelta(seconds=64), START + timedelta(seconds=124)]
