"""Forms made from signatures: what each type looks like, what was typed as arguments, and complaints beside fields."""

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from evertick import App, MutationCtx
from evertick.base.instants import Instant
from evertick.dashboard.forms.form import Form
from evertick.dashboard.forms.signature import Signature, leaves, signature_of
from evertick.dashboard.markup.times import Times
from evertick.recurrence.zones.names import zone_named

TIMES = Times(Instant(1_795_000_000_000), zone_named("Europe/Berlin"))


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    street: str
    city: str = "Berlin"
    floor: int | None = None


@dataclass
class Parcel:
    weight: float
    to: Address | None = None


class Node(BaseModel):
    children: list["Node"] = []


class Odd:
    """A type that JSON schema cannot tell."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(lambda value: value)


@pytest.fixture
def app() -> Iterator[App]:
    yield App("forms")


def signature(app: App, handler: Any) -> Signature:
    return signature_of(app.mutation(handler))


def typed(signature: Signature, **texts: str) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """What is read from these fields, and the complaints."""
    form = Form([(f"a.{name.replace('__', '.')}", text) for name, text in texts.items()])
    return signature.read(form, TIMES), form.errors


def test_each_type_has_its_field(app: App) -> None:
    def order(
        ctx: MutationCtx, text: str, n: int, x: float, yes: bool, size: Size, word: Literal["a", 3], day: date,
        at: datetime, wait: timedelta, price: Decimal, tags: list[str], facts: dict[str, int], either: int | str,
        to: Address, maybe: Address | None, node: Node, odd: Odd, anything: Any, note: str | None = None,
    ) -> None: ...  # fmt: skip

    fields = {each.name: each for each in signature(app, order).fields}
    assert {name: each.kind for name, each in fields.items()} == {
        "text": "text", "n": "integer", "x": "number", "yes": "bool", "size": "choice", "word": "choice",
        "day": "date", "at": "datetime", "wait": "duration", "price": "decimal", "tags": "list", "facts": "json",
        "either": "value", "to": "group", "maybe": "group", "node": "group", "odd": "value", "anything": "value",
        "note": "text",
    }  # fmt: skip
    assert fields["size"].choices == ('"small"', '"large"')
    assert fields["word"].choices == ('"a"', "3")
    assert [each.id for each in fields["to"].fields] == ["a.to.street", "a.to.city", "a.to.floor"]
    assert fields["to"].fields[1].default == '"Berlin"'
    assert (fields["note"].required, fields["note"].nullable, fields["note"].default) == (False, True, "nothing")


def test_what_was_typed_becomes_arguments(app: App) -> None:
    def order(
        ctx: MutationCtx, text: str, n: int, at: datetime, wait: timedelta, price: Decimal, to: Address,
        tags: list[str], size: Size, floor: int | None, yes: bool = True, either: int | str = 1,
    ) -> None: ...  # fmt: skip

    function = app.mutation(order)
    made = signature_of(function)
    args, errors = typed(
        made, text=" two\r\nlines ", n="7", at="2026-12-24 09:00", wait="1h30m", price="1.10", to__street="Main St",
        tags='["x"]', size='"large"', yes="false", either="abc",
    )  # fmt: skip
    assert (args, errors) == (
        {
            "text": " two\nlines ", "n": 7, "at": "2026-12-24T08:00:00+00:00", "wait": 5400.0, "price": "1.10",
            "to": {"street": "Main St"}, "tags": ["x"], "size": "large", "floor": None, "yes": False, "either": "abc",
        },
        {},
    )  # fmt: skip
    assert args is not None
    _, values = function.decode_args(function.encode_args((), args))
    assert (values["price"], values["wait"], values["to"].city) == (Decimal("1.10"), timedelta(minutes=90), "Berlin")


def test_a_value_that_begins_as_json_and_is_none_is_no_text(app: App) -> None:
    def note(ctx: MutationCtx, anything: Any, text: str = "") -> None: ...

    made = signature(app, note)
    assert typed(made, anything="hello", text="{hello") == ({"anything": "hello", "text": "{hello"}, {})
    args, errors = typed(made, anything="{ok: true}")
    assert (args, list(errors)) == (None, ["a.anything"])
    assert "not JSON" in errors["a.anything"]
    assert made.read(made.form({"anything": "{ok: true}"}), TIMES) == {"anything": "{ok: true}"}


@pytest.mark.parametrize(
    ("texts", "args"),
    [
        ({}, {"must": None}),
        ({"must__street": "s"}, {"must": {"street": "s"}}),
        ({"may?": "none"}, {"must": None, "may": None}),
        ({"may?": "model", "may__weight": "1.5"}, {"must": None, "may": {"weight": 1.5}}),
        ({"may__weight": "1.5", "may__to__city": "Rome", "may__to__street": "s"},
         {"must": None, "may": {"weight": 1.5, "to": {"street": "s", "city": "Rome"}}}),
        ({"may__weight": "1.5", "may__to?": "none"}, {"must": None, "may": {"weight": 1.5, "to": None}}),
    ],
)  # fmt: skip
def test_a_model_that_may_be_none_has_its_fields_and_a_choice(
    app: App, texts: dict[str, str], args: dict[str, Any]
) -> None:
    def order(ctx: MutationCtx, must: Address | None, may: Parcel | None = Parcel(1.0)) -> None: ...

    made = signature(app, order)
    assert {each.name: (each.kind, each.nullable) for each in made.fields} == {
        "must": ("group", True), "may": ("group", True),
    }  # fmt: skip
    assert typed(made, **texts) == (args, {})
    again = made.form(args)
    assert again["args_as"] == "fields"
    assert made.read(again, TIMES) == args


def test_a_model_whose_fields_are_all_empty_is_another_thing_than_none(app: App) -> None:
    def order(ctx: MutationCtx, node: Node | None = None) -> None: ...

    made = signature(app, order)
    assert typed(made) == ({}, {})
    assert typed(made, **{"node?": "model"}) == ({"node": {}}, {})
    args, errors = typed(made, **{"node?": "none", "node__children": "[]"})
    assert args is None
    assert "clear them" in errors["a.node?"]
    missing = typed(signature(app, lambda_of(Address)), **{"to?": "model"})
    assert missing[1].keys() == {"a.to.street"}


def lambda_of(model: Any) -> Any:
    def order(ctx: MutationCtx, to: Any) -> None: ...

    order.__annotations__["to"] = model | None
    order.__name__ = "another_order"
    return order


def test_models_that_may_be_none_and_are_very_many_are_json_each(app: App) -> None:
    parameters = ", ".join(f"p{n}: Address | None = None" for n in range(30))
    space: dict[str, Any] = {"MutationCtx": MutationCtx, "Address": Address}
    exec(f"def many(ctx: MutationCtx, {parameters}) -> None: ...", space)
    space["many"].__module__ = "m"
    assert {each.kind for each in signature(app, space["many"]).fields} == {"json"}


def test_complaints_stand_beside_their_fields(app: App) -> None:
    def order(
        ctx: MutationCtx, item: str, n: Annotated[int, Field(ge=1)], to: Address, tags: list[int], at: datetime
    ) -> None: ...

    made = signature(app, order)
    args, errors = typed(made, n="0", to__floor="x", tags="[1,", at="soon")
    assert args is None
    assert errors.keys() == {"a.item", "a.n", "a.to.street", "a.to.floor", "a.tags", "a.at"}
    assert "Field required" in errors["a.item"]
    assert "greater than or equal to 1" in errors["a.n"]
    assert "not JSON" in errors["a.tags"]
    _, errors = typed(made, item="x", n="1", to__street="s", tags='[1, "x", "y"]', at="2026-12-24")
    assert errors.keys() == {"a.tags"}
    assert errors["a.tags"].startswith("1: Input should be a valid integer")


def test_arguments_go_from_fields_to_json_and_back(app: App) -> None:
    def order(ctx: MutationCtx, item: str, to: Address, n: int = 1) -> None: ...

    made = signature(app, order)
    form = Form([("a.item", "bread"), ("a.to.street", "Main St"), ("a.n", "x"), ("when", "now")])
    form.pairs.append(("args_switch", "json"))
    assert made.switch(form)
    assert made.is_json(form)
    assert json.loads(form["args"]) == {"item": "bread", "to": {"street": "Main St"}, "n": "x"}
    assert form["when"] == "now", "other fields stay"

    form.pairs.append(("args_switch", "fields"))
    assert made.switch(form)
    assert not made.is_json(form)
    assert (form["a.item"], form["a.to.street"], form["a.n"]) == ("bread", "Main St", "x")
    assert not made.switch(form), "one click is one switch"


@pytest.mark.parametrize("args", [{"item": ""}, {"item": "a", "gone": 1}, {"item": "\x00"}, {"item": "a\r\nb"}])
def test_what_fields_cannot_say_stays_json(app: App, args: dict[str, Any]) -> None:
    def order(ctx: MutationCtx, item: str) -> None: ...

    form = signature(app, order).form(args)
    assert form["args_as"] == "json"
    assert json.loads(form["args"]) == args


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}', '{"a": 1, "a": 2}', '{"item": 1}', '{"other": "x"}'])
def test_json_that_is_none_or_does_not_fit_is_refused(app: App, text: str) -> None:
    def order(ctx: MutationCtx, item: str) -> None: ...

    form = Form([("args_as", "json"), ("args", text)])
    assert signature(app, order).read(form, TIMES) is None
    assert form.errors.keys() == {"args"}


def test_arguments_of_a_job_fill_the_form_and_come_back_the_same(app: App) -> None:
    def order(
        ctx: MutationCtx, item: str, to: Address, at: datetime, size: Size, tags: list[str], either: int | str
    ) -> None: ...

    made = signature(app, order)
    args = {
        "item": "a\nb", "to": {"street": "s", "city": "Paris", "floor": 3}, "at": "2026-12-24T08:00:00+00:00",
        "size": "small", "tags": ["x"], "either": "abc",
    }  # fmt: skip
    assert made.read(made.form(args), TIMES) == args


def test_a_signature_of_very_many_fields_is_typed_as_json(app: App) -> None:
    parameters = ", ".join(f"p{n}: int" for n in range(80))
    space: dict[str, Any] = {"MutationCtx": MutationCtx}
    exec(f"def many(ctx: MutationCtx, {parameters}) -> None: ...", space)
    space["many"].__module__ = "m"
    made = signature(app, space["many"])
    assert made.is_json(Form())
    assert not list(leaves(made.fields))
