"""Many schedules follow the code: arguments under new names, and a function under its new name."""

from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, MutationCtx, every
from evertick.app.doctor import examine
from evertick.base.errors import FunctionNotFound, InvalidArguments, Misuse
from evertick.base.ids import DEFAULT_TENANT

OpenApp = Callable[..., App]


def before(app: App) -> App:
    """The release that has made the schedules."""

    @app.mutation(name="bill")
    def bill(ctx: MutationCtx, customer: str, cents: int = 5) -> None: ...

    @app.mutation(name="greet")
    def greet(ctx: MutationCtx, customer: str) -> None: ...

    app.migrate()
    app.open()
    for n in range(3):
        app.schedules.create(
            f"bill-{n}", when=every(hours=1), do=bill.with_args(f"c{n}", cents=n) if n else bill.with_args("c0")
        )
    app.schedules.create("greet", when=every(hours=1), do=greet.with_args("ada"))
    app.crons.add("declared", every(hours=1), bill, "of code")
    app.sync_crons()
    return app


def after(app: App, **options: Any) -> App:
    """The release in which the function and its parameter have other names."""

    @app.mutation(name="charge", **options)
    def charge(ctx: MutationCtx, client: str, cents: int = 5) -> None: ...

    @app.mutation(name="greet")
    def greet(ctx: MutationCtx, customer: str) -> None: ...

    app.open()
    return app


def calls(app: App) -> dict[str, tuple[str, dict[str, Any]]]:
    """What each schedule calls."""
    found = [app.schedules.get(each.id) for each in app.schedules.list(kind="schedule").schedules]
    return {each.id: (each.target.function, each.target.args) for each in found}


def problems(app: App) -> list[tuple[str, str, int, str]]:
    """What the doctor finds, and its cures."""
    report = examine(app, app.environment.store, DEFAULT_TENANT)
    return [(each.what, each.problem, each.count, each.fix) for each in report.findings if each.what == "schedule"]


def test_renamed_parameters_and_functions_are_followed_and_the_alias_can_go(open_app: OpenApp) -> None:
    before(open_app())
    app = after(open_app(), aliases=["bill"])
    update = "evertick schedule update --query function:bill"
    assert problems(app) == [("schedule", "arguments", 3, f"{update} --rename customer=client --function charge")]
    versions = {each.id: each.version for each in app.schedules.list().schedules}

    changed = app.schedules.update_all(rename={"customer": "client"}, function="bill")

    assert changed == 3
    expected = {f"bill-{n}": ("charge", {"client": f"c{n}"} | ({"cents": n} if n else {})) for n in range(3)}
    assert calls(app) == {**expected, "greet": ("greet", {"customer": "ada"})}
    assert app.schedules.update_all(rename={"customer": "client"}, function="bill") == 0
    left = {each.id: each.version - versions[each.id] for each in app.schedules.list().schedules}
    assert left == {"bill-0": 1, "bill-1": 1, "bill-2": 1, "greet": 0, "declared": 0}
    assert problems(app) == []
    assert problems(after(open_app())) == [], "the alias can go"
    assert {line.action for line in app.schedules.history("bill-0")} == {"created", "updated"}


def test_another_function_keeps_the_arguments(open_app: OpenApp) -> None:
    app = before(open_app())
    app.schedules.pause("bill-1", "they have left")

    assert app.schedules.update_all(do=app.functions.resolve("greet"), rename={"cents": "n"}, id_contains="greet") == 0
    with pytest.raises(InvalidArguments, match=r"^schedule 'bill-1': .*cents: the function has no such parameter"):
        app.schedules.update_all(do="greet", function="bill")
    assert {function for function, _ in calls(app).values()} == {"bill", "greet"}, "the page is undone"
    assert app.schedules.update_all(do="bill", id_contains="greet") == 1
    assert calls(app)["greet"] == ("bill", {"customer": "ada"})
    assert app.schedules.get("bill-1").paused


def test_what_cannot_be_meant_is_refused(open_app: OpenApp) -> None:
    app = before(open_app())
    for wrong, error, says in (
        ({}, Misuse, "nothing to change; give rename=, do= or both"),
        ({"rename": {}}, Misuse, "rename= takes old names with new ones"),
        ({"rename": ["customer"]}, Misuse, "rename= takes old names with new ones"),
        ({"rename": {"customer": "a b"}}, Misuse, "rename= takes names of arguments, not 'a b'"),
        ({"rename": {"customer": "x", "cents": "x"}}, Misuse, "rename= gives two arguments the same name"),
        (
            {"rename": {"customer": "cents"}, "id_contains": "bill-2"},
            InvalidArguments,
            "schedule 'bill-2' has the argument 'cents' already",
        ),
        ({"do": "blil"}, FunctionNotFound, "no function 'blil' is registered; did you mean bill?"),
        ({"do": "bill", "colour": "red"}, Misuse, "schedules are not chosen by colour"),
    ):
        with pytest.raises(error, match=says):
            app.schedules.update_all(**wrong)


def test_each_page_is_a_transaction_and_stays(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    before(open_app())
    app = after(open_app(), aliases=["bill"])
    monkeypatch.setattr("evertick.app.schedules.commands.BULK_PAGE", 2)
    told: list[int] = []

    with pytest.raises(InvalidArguments, match=r"^schedule 'greet': .*client: the function has no such parameter"):
        app.schedules.with_progress(told.append).update_all(rename={"customer": "client"})

    assert told == [2, 3]
    assert [function for function, _ in calls(app).values()] == ["charge"] * 3 + ["greet"]
