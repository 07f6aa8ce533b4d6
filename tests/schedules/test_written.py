"""What is written of a schedule makes the same schedule: for every option, within and at its limits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick import App, MutationCtx, Retry, every
from evertick.app.schedules.bodies import WrittenSchedule, when_of, written
from evertick.base.records.jobs import RetryPolicy
from evertick.cli.schedule.files.forms import json_of, read_json, read_yaml, yaml_of
from evertick.errors import EvertickError, InvalidArguments
from evertick.rules.schedules.policies import CatchUp, Overlap
from evertick.testing import World
from tests.sampling import examples

TEXTS = st.text(max_size=20) | st.sampled_from(["~", "1e3", "17:30", " x ", "a\n", "\x00", "\ud800", "{nominal}"])
FLOATS = st.floats() | st.sampled_from([float("nan"), float("inf"), 1e308])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
SPANS = st.timedeltas(timedelta(0), timedelta.max) | st.sampled_from([timedelta(0), timedelta.max])
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
COUNTS = st.integers(-1, 2**63)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "start": MOMENTS,
    "end": MOMENTS,
    "jitter": SPANS | COUNTS,
    "overlap": st.sampled_from(Overlap),
    "concurrency_limit": COUNTS,
    "catch_up": st.sampled_from(CatchUp),
    "catch_up_window": SPANS | FLOATS,
    "pause_on_failure": st.booleans(),
    "buffer_limit": COUNTS,
    "retry": st.tuples(st.integers(0, 99), SPANS, st.floats(0, 101), SPANS, st.floats(-1, 2)),
    "remaining_actions": COUNTS,
    "workflow_id": TEXTS,
    "run_id_template": TEXTS,
    "note": TEXTS,
    "memo": JSON,
    "paused": st.booleans() | MOMENTS,
}


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    app = App("shop")

    @app.mutation(name="count")
    def count(ctx: MutationCtx, what: Any = None) -> None: ...

    with World(app) as world:
        yield world


def description(world: World, name: str, **options: Any) -> dict[str, Any]:
    world.app.schedules.create(name, **options)
    return written(world.app.schedules.get(name))


def retry_of(given: tuple[int, timedelta, float, timedelta, float]) -> RetryPolicy:
    attempts, first, factor, cap, jitter = given
    return Retry(attempts, first=first, factor=factor, cap=cap, jitter=jitter)


@examples(60)
@given(st.fixed_dictionaries({}, optional=OPTIONS), JSON)
def test_every_schedule_that_can_be_made_can_be_applied(shop: World, options: dict[str, Any], what: Any) -> None:
    count: Any = shop.app.functions.resolve("count")
    if (name := "first") in [each.id for each in shop.app.schedules.list().schedules]:
        shop.app.schedules.delete(name)
    try:
        if "retry" in options:
            options["retry"] = retry_of(options["retry"])
        first = description(shop, name, when=every(hours=1), do=count.with_args(what=what), **options)
    except EvertickError:
        return  # it was refused where it was asked for

    for write, read in ((yaml_of, read_yaml), (json_of, read_json)):
        [value] = read(write({"schedules": [first]}), "f").value["schedules"]
        again = WrittenSchedule.model_validate(value)
        shop.app.schedules.delete(name)
        second = description(
            shop,
            name,
            when=when_of(again.when),
            do=count.with_args(**again.args),
            paused=again.paused or False,
            **again.options(lifts=False),
        )
        assert second == first


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_arguments_that_no_file_can_hold_are_refused(shop: World, number: float) -> None:
    count: Any = shop.app.functions.resolve("count")
    with pytest.raises(InvalidArguments, match="the arguments of a schedule are JSON"):
        shop.app.schedules.create("odd", when=every(hours=1), do=count.with_args(what={"n": [number]}))
    shop.app.schedules.create("NaN", when=every(hours=1), do=count.with_args(what="NaN, Infinity"))
    shop.app.schedules.delete("NaN")


def test_the_note_of_a_pause_after_a_failure_is_not_written() -> None:
    app = App("shop")

    @app.mutation(name="bill")
    def bill(ctx: MutationCtx) -> None:
        raise ValueError("no such card")

    with World(app) as world:
        app.schedules.create("bills", when=every(hours=1), do=bill, pause_on_failure=True, note="of the shop")
        world.advance(timedelta(hours=2))
        assert "no such card" in app.schedules.get("bills").note
        first = written(app.schedules.get("bills"))
        assert first["paused"] is True
        assert "note" not in first
