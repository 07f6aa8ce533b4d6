"""Arguments travel as JSON and come back as what the annotations say."""

import enum
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, NewType, Optional, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from evertick import App, MutationCtx
from evertick.app.functions.function import Function
from evertick.app.functions.text_arguments import encode_words
from evertick.base.errors import InvalidArguments, RegistrationError, ValueTooLarge
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

UserId = NewType("UserId", str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Address:
    street: str
    since: datetime
    tags: list[str] = field(default_factory=list)
    seal: bytes = b"\x00\xfe"


class Money(BaseModel):
    amount: Decimal
    currency: Literal["EUR", "USD"] = "EUR"


class Sealed(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    raw: bytes


class Order(BaseModel):
    lines: list[Money]
    address: Address | None = None


class Point(NamedTuple):
    x: int
    y: float


class Config(TypedDict, total=False):
    depth: int
    names: set[str]


BERLIN_SUMMER = timezone(timedelta(hours=2))

VALUES: list[tuple[Any, Any]] = [
    (int, 0),
    (int, 2**200),
    (int, -(2**63)),
    (float, 1.0),
    (float, 0.1 + 0.2),
    (float, -0.0),
    (float, 1e308),
    (float, math.inf),
    (float, -math.inf),
    (bool, True),
    (str, ""),
    (str, 'naïve 漢字 🎉 \x00 \n " \\ $ { }'),
    (bytes, b""),
    (bytes, bytes(range(256))),
    (None, None),
    (datetime, datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)),
    (datetime, datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN_SUMMER)),
    (datetime, datetime(2026, 3, 29, 1, 30)),
    (date, date(2026, 2, 28)),
    (time, time(23, 59, 59, 999999)),
    (timedelta, timedelta(days=3, microseconds=1)),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("123456789012345678901234567890.000000000000000001")),
    (UUID, UUID(int=2**127 + 1)),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Path, Path("/tmp/x")),
    (UserId, UserId("u1")),
    (Literal["a", 1], 1),
    (Optional[int], None),  # noqa: UP045
    (int | None, 5),
    (Union[int, str], "5"),  # noqa: UP007
    (int | str, 5),
    (list[bytes], [b"\xff", b""]),
    (tuple[int, str], (1, "x")),
    (tuple[int, ...], (1, 2, 3)),
    (set[int], {3, 1, 2}),
    (frozenset[str], frozenset({"a"})),
    (dict[str, list[Decimal]], {"a": [Decimal(1), Decimal("2.50")]}),
    (dict[int, str], {1: "one"}),
    (list[list[dict[str, int | None]]], [[{"a": None}], []]),
    (Address, Address("Way 1", datetime(2020, 1, 1, tzinfo=UTC), ["home"])),
    (list[Address], [Address("Way 1", datetime(2020, 1, 1, tzinfo=UTC))]),
    (Money, Money(amount=Decimal("9.99"))),
    (Sealed, Sealed(raw=b"\xff\x00")),
    (
        Order,
        Order(lines=[Money(amount=Decimal(1), currency="USD")], address=Address("W", datetime(2020, 1, 1), seal=b"ok")),
    ),
    (Point, Point(1, 2.5)),
    (Config, {"depth": 2, "names": {"x"}}),
    (Any, {"a": [1, 2.5, None, True, "x"]}),
    (object, [1, {"b": []}]),
]


def mutation_of(hint: Any) -> Function[..., Any]:
    app = App("arguments")

    def take(ctx: MutationCtx, value: Any) -> None: ...

    take.__annotations__["value"] = hint
    take.__annotations__["return"] = hint
    return app.mutation(take)


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=str)
def test_a_value_comes_back_as_it_went(hint: Any, value: Any) -> None:
    function = mutation_of(hint)

    text = function.encode_args((value,), {})
    args, kwargs = function.decode_args(text)

    assert args == ()
    assert kwargs == {"value": value}
    assert type(kwargs["value"]) is type(value)
    assert shown(kwargs["value"]) == shown(value)
    assert list(json.loads(text)) == ["value"]


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=str)
def test_a_result_comes_back_as_it_went(hint: Any, value: Any) -> None:
    function = mutation_of(hint)

    result = function.decode_result(function.encode_result(value))

    assert shown(result) == shown(value)


def shown(value: Any) -> str:
    """The value to the last digit (1.10 is not 1.1, -0.0 is not 0.0); pydantic has a class of its own for offsets."""
    text = repr(value).replace("datetime.timezone.utc", "TzInfo(0)").replace("TzInfo(UTC)", "TzInfo(0)")
    text = text.replace("TzInfo(+02:00)", "TzInfo(7200)")  # as older releases of pydantic say it
    return re.sub(r"datetime\.timezone\(datetime\.timedelta\(seconds=(\d+)\)\)", r"TzInfo(\1)", text)


def test_not_a_number_comes_back_as_not_a_number() -> None:
    function = mutation_of(list[float])
    _, kwargs = function.decode_args(function.encode_args(([math.nan],), {}))

    assert math.isnan(kwargs["value"][0])


@pytest.mark.parametrize(
    ("hint", "value", "says"),
    [
        (int, "x", "value: input should be a valid integer"),
        (int, 1.5, "value: input should be a valid integer"),
        (str, 5, "value: input should be a valid string"),
        (Colour, "green", "value: input should be 'red' or 'blue'"),
        (datetime, "yesterday", "value: input should be a valid datetime"),
        (list[int], [1, "x"], r"value\[1\]: input should be a valid integer"),
        (Money, {"amount": "x"}, r"value\.amount: input should be a valid decimal"),
        (Literal["a"], "b", "value: input should be 'a'"),
        (Any, object(), "cannot be stored as JSON"),
        (str, "\ud800", "value: .*(valid string|surrogate|unicode)|cannot be stored as JSON"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(hint: Any, value: Any, says: str) -> None:
    function = mutation_of(hint)

    with pytest.raises(InvalidArguments, match=says):
        function.encode_args((value,), {})


def test_the_message_names_the_function_its_parameters_and_what_it_got() -> None:
    app = App("arguments")

    @app.mutation
    def f(ctx: MutationCtx, a: int, b: str = "x") -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        f.encode_args(("no",), {})

    assert str(caught.value) == (
        "ArgumentValidationError: tests.app.test_arguments.f(a, b): a: input should be a valid integer, "
        "unable to parse string as an integer (got 'no' (str))"
    )
    assert caught.value.code == "invalid_arguments"


Signature = Callable[..., None]


def positional_and_keyword(ctx: MutationCtx, a: int, *, b: int) -> None: ...
def defaults(ctx: MutationCtx, a: int = 1, b: str = "x") -> None: ...
def positional_only(ctx: MutationCtx, a: int, b: int = 2, /, c: int = 3) -> None: ...
def var_positional(ctx: MutationCtx, a: int, *rest: Decimal) -> None: ...
def var_keyword(ctx: MutationCtx, a: int = 0, **rest: datetime) -> None: ...
def everything(ctx: MutationCtx, a: int, /, b: int, *c: int, d: int, e: int = 5, **f: int) -> None: ...
def unannotated(ctx, a, b=None) -> None: ...  # type: ignore[no-untyped-def]


AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("handler", "args", "kwargs"),
    [
        (positional_and_keyword, (1,), {"b": 2}),
        (positional_and_keyword, (), {"a": 1, "b": 2}),
        (defaults, (), {}),
        (defaults, (5,), {}),
        (defaults, (5, "y"), {}),
        (defaults, (), {"b": "y"}),
        (positional_only, (1,), {}),
        (positional_only, (1, 4), {"c": 5}),
        (positional_only, (1, 4, 5), {}),
        (var_positional, (1,), {}),
        (var_positional, (1, Decimal("2.0"), Decimal("3.00")), {}),
        (var_keyword, (), {}),
        (var_keyword, (1,), {"x": AT, "y": AT}),
        (everything, (1, 2), {"d": 4}),
        (everything, (1, 2, 3, 3), {"d": 4, "e": 6, "g": 7, "h": 8}),
        (unannotated, ({"a": [1]},), {"b": "x"}),
    ],
)
def test_a_call_arrives_as_it_was_made(handler: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The bound arguments are the same as those of a direct call."""
    import inspect

    function = App("arguments").mutation(handler)
    signature = inspect.signature(handler)

    got_args, got_kwargs = function.decode_args(function.encode_args(args, kwargs))

    direct = signature.bind(None, *args, **kwargs)
    arrived = signature.bind(None, *got_args, **got_kwargs)
    direct.apply_defaults()
    arrived.apply_defaults()
    assert arrived == direct


@pytest.mark.parametrize(
    ("handler", "args", "kwargs", "says"),
    [
        (defaults, (1, "x", 3), {}, "takes 2 positional argument"),
        (defaults, (1,), {"a": 1}, "a given twice"),
        (defaults, (), {"z": 1}, "z: the function has no such parameter"),
        (positional_and_keyword, (1, 2), {}, "takes 1 positional argument"),
        (positional_and_keyword, (1,), {}, "b: field required"),
        (positional_and_keyword, (), {"b": 1}, "a: field required"),
        (var_positional, (1, "x"), {}, "rest"),
        (var_keyword, (), {"x": "no moment"}, "rest"),
    ],
)
def test_a_call_that_the_signature_does_not_take_is_refused(
    handler: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    function = App("arguments").mutation(handler)

    with pytest.raises(InvalidArguments, match=says):
        function.encode_args(args, kwargs)


def test_words_of_a_command_line_are_read_by_the_annotations() -> None:
    app = App("arguments")

    @app.mutation
    def f(ctx: MutationCtx, n: int, text: str, flags: list[bool], maybe: str | None = None) -> None: ...

    words = {"n": "5", "text": "hello", "flags": "[true, false]", "maybe": "null"}
    assert f.decode_args(encode_words(f, words, {}))[1] == {
        "n": 5,
        "text": "hello",
        "flags": [True, False],
        "maybe": None,
    }

    @app.mutation
    def g(ctx: MutationCtx, text: str) -> None: ...

    assert g.decode_args(encode_words(g, {"text": "5"}, {}))[1] == {"text": "5"}


def test_a_word_that_begins_as_json_and_is_none_is_text_where_only_text_fits() -> None:
    app = App("arguments")

    @app.mutation
    def f(ctx: MutationCtx, text: str, anything: Any = None, either: str | list[int] = "") -> None: ...

    def read(**words: str) -> Any:
        return f.decode_args(encode_words(f, {"text": "", **words}, {}))[1]

    assert read(text="{name}, [hello")["text"] == "{name}, [hello"
    assert read(text="5", anything='{"ok": true}', either="[1, 2]") == {
        "text": "5",
        "anything": {"ok": True},
        "either": [1, 2],
    }
    assert read(anything="ok", either="ok") == {"text": "", "anything": "ok", "either": "ok"}
    assert read(anything='"{ok: true}"')["anything"] == "{ok: true}"
    for broken in (
        {"anything": "{ok: true}"},
        {"anything": '"ok'},
        {"either": "[1, 2"},
        {"text": "5", "anything": "[1"},
    ):
        with pytest.raises(InvalidArguments, match=f"{list(broken)[-1]} is not JSON: "):
            read(**broken)


def test_a_result_that_json_cannot_hold_is_refused_and_so_is_one_too_large() -> None:
    with pytest.raises(InvalidArguments, match="what it returned cannot be stored"):
        mutation_of(Any).encode_result(object())
    with pytest.raises(ValueTooLarge, match="the limit is 1048576"):
        mutation_of(str).encode_result("x" * 2**20)


def test_annotations_that_pydantic_cannot_check_are_found_at_start() -> None:
    app = App("arguments", database_url="sqlite://")

    class Opaque: ...

    @app.mutation
    def f(ctx: MutationCtx, value: Opaque) -> None: ...

    with pytest.raises(RegistrationError, match=r"test_arguments\.f: pydantic cannot check its arguments") as refused:
        app.worker()
    assert "arbitrary_types_allowed" not in str(refused.value)


def test_a_result_that_pydantic_cannot_write_is_found_at_start() -> None:
    app = App("arguments", database_url="sqlite://")

    class Opaque: ...

    def f(ctx: MutationCtx) -> Opaque: ...  # type: ignore[empty-body]

    f.__annotations__["return"] = Opaque
    app.mutation(f)

    with pytest.raises(RegistrationError, match=r"test_arguments\.f: pydantic cannot check what it returns"):
        app.worker()


@dataclass
class Everything:
    at: datetime
    price: Decimal
    who: UUID
    raw: bytes
    big: int
    colour: Colour
    nested: dict[str, list[Money]]


def test_everything_survives_a_job_on_each_database(open_app: OpenApp) -> None:
    app = open_app()
    got: list[Any] = []

    @app.mutation
    def take(ctx: MutationCtx, value: Everything, *rest: bytes, text: str) -> Everything:
        got[:] = [value, rest, text]  # a conflict runs it again
        return value

    value = Everything(
        at=datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN_SUMMER),
        price=Decimal("1.10"),
        who=UUID(int=5),
        raw=b"\x00\xff",
        big=2**100,
        colour=Colour.BLUE,
        nested={"x": [Money(amount=Decimal("0.00"))]},
    )
    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, take, value, b"\xfe", text="\x00 漢字"))

    assert job.error is None
    assert got == [value, (b"\xfe",), "\x00 漢字"]
    assert job.result["price"] == "1.10"


@pytest.mark.parametrize("given", [{str(n): n for n in range(1_001)}, {"n": ["x"] * 1_001}])
def test_of_very_many_errors_in_arguments_only_the_number_is_told(given: dict[str, Any]) -> None:
    app = App("shop")

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx, n: list[int]) -> None: ...

    function = app.functions.resolve("shop.order")
    with pytest.raises(InvalidArguments, match=r"shop\.order\(n\): 1,00[12] values do not fit its signature"):
        function.encode_args((), given)
    with pytest.raises(InvalidArguments, match=r"n\[0\]: .*n\[1\]: "):
        function.encode_args((), {"n": ["x"] * 1_000})
