"""A value reads back as it was written, wherever it is kept; what would not is refused."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from evertick import App, MutationCtx, Step, every
from evertick.app.jobs.operations import as_they_are
from evertick.errors import InvalidArguments
from evertick.testing import World
from tests.sampling import examples

app = App("values")


class Color(Enum):
    RED = "red"


class Shade(StrEnum):
    DARK = "dark"


class Text(str):
    """Text of the user's own class."""


class Model(BaseModel):
    n: int


@dataclass
class Point:
    x: int


@app.mutation(name="anything")
def anything(ctx: MutationCtx, value: Any) -> Any:
    return value


@app.mutation(name="bare")
def bare(ctx: MutationCtx, values: list, words: dict) -> list:  # type: ignore[type-arg]
    return values


@app.mutation(name="either")
def either(ctx: MutationCtx, value: str | bytes) -> str | bytes:
    return value


@app.mutation(name="typed")
def typed(ctx: MutationCtx, raw: bytes, at: datetime, by: dict[int, Decimal], pair: tuple[int, Model]) -> set[Point]:
    raise NotImplementedError


@app.workflow(name="waits")
async def waits(step: Step) -> Any:
    step.progress({"seen": 0})
    return await step.wait_for("go")


LOST = [
    b"raw", bytearray(b"raw"), (1, 2), {1, 2}, frozenset({1}), Decimal("1.10"), datetime(2026, 1, 1, tzinfo=UTC),
    date(2026, 1, 1), timedelta(1), {1: 2}, {None: 1}, {True: 1}, Color.RED, Point(1), Model(n=1), UUID(int=1), 1 + 2j,
    range(3), object(), "\ud800",
]  # fmt: skip
"""What JSON has no word for."""
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return isinstance(other, float) and repr(one) == repr(other)  # not a number, and minus zero
    return type(one) is type(other) and bool(one == other)


@examples(200)
@given(PLAIN)
def test_a_value_of_json_reads_back_as_an_argument_and_as_a_result(value: Any) -> None:
    assert same(anything.decode_args(anything.encode_args((value,), {}))[1], {"value": value})
    assert same(anything.decode_result(anything.encode_result(value)), value)


@pytest.mark.parametrize("value", LOST, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [v], lambda v: {"inner": {"list": [v]}}], ids=["", "in", "deep"]
)
def test_what_would_read_back_as_something_else_is_refused(value: Any, wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidArguments, match="anything: its arguments"):
        anything.encode_args((wrap(value),), {})
    with pytest.raises(InvalidArguments, match="anything: what it returned"):
        anything.encode_result(wrap(value))
    with pytest.raises(InvalidArguments, match="bare"):
        bare.encode_args(([wrap(value)], {}), {})
    with pytest.raises(InvalidArguments, match="bare"):
        bare.encode_args(([], {"key": wrap(value)}), {})


def test_the_error_says_what_and_where_it_is() -> None:
    with pytest.raises(
        InvalidArguments, match=r"the bytes at \['value'\]\['files'\]\[1\] reads back as str; convert it"
    ):
        anything.encode_args(({"files": ["a", b"b"]},), {})
    with pytest.raises(InvalidArguments, match=r"the key 7 at \['value'\] reads back as text"):
        anything.encode_args(({7: "seven"},), {})


@pytest.mark.parametrize("value", [Shade.DARK, Text("x"), math.inf, -0.0, 2**70, True])
def test_what_compares_equal_is_kept(value: Any) -> None:
    assert anything.decode_args(anything.encode_args((value,), {}))[1]["value"] == value


def test_types_keep_what_they_say_and_one_of_several_is_refused_where_they_do_not_tell() -> None:
    given_ = {
        "raw": b"\xff",
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "by": {7: Decimal("1.10")},
        "pair": (1, Model(n=2)),
    }
    assert typed.decode_args(typed.encode_args((), given_))[1] == given_
    assert either.decode_args(either.encode_args(("text",), {}))[1] == {"value": "text"}
    with pytest.raises(InvalidArguments, match="reads back as str"):
        either.encode_args((b"raw",), {})


@pytest.mark.parametrize("value", [b"raw", (1, 2), {1: 2}, Decimal(1)], ids=repr)
def test_every_other_place_refuses_them_too(value: Any) -> None:
    """Events without a type, the memo of a schedule; a document keeps bytes and decimals, and refuses the others."""
    with World(app) as world:
        run = app.workflows.start(waits)
        world.advance(1)
        with pytest.raises(InvalidArguments, match="the value of the event 'go'"):
            app.workflows.signal(run, "go", {"value": value})
        with pytest.raises(InvalidArguments, match="the memo"):
            app.schedules.create("s", when=every(hours=1), do=anything.with_args(1), memo={"value": value})
        with pytest.raises(InvalidArguments, match="the memo cannot be stored as JSON: the key 1 reads back as text"):
            app.schedules.create("s", when=every(hours=1), do=anything.with_args(1), memo={1: 2})
        with pytest.raises(InvalidArguments, match="arguments for elsewhere: "):
            as_they_are("elsewhere", {"deep": [{"value": value}]})
        app.workflows.signal(run, "go", {"value": [1.5]})
        world.advance(1)
        assert app.workflows.result(run) == {"value": [1.5]}
        if isinstance(value, bytes | Decimal):
            document = app.db.insert("rows", {"value": value})
            assert app.db.get(document)["value"] == value
        else:
            with pytest.raises(InvalidArguments, match="document"):
                app.db.insert("rows", {"deep": [{"value": value}]})
