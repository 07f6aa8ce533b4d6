"""`evertick schedule update --query`: many schedules follow the code; and --rename for one of them."""

import json

import pytest

from evertick import every
from tests.cli.desk import Command
from tests.cli.test_every_command import ids, shop, shop_file

__all__ = ["ids", "shop_file"]

MANY = ("schedule", "update", "--query", "function:shop.bill id:m", "--rename", "order=order_id", "--yes")


@pytest.fixture
def made(ids: dict[str, str], command: Command) -> None:
    """Three schedules of bills, one of them with other arguments, beside what the shop has."""
    for name, args in (("m1", {"order": 1}), ("m2", {"order": 2, "order_id": 9}), ("m3", {"other": 3})):
        line = ("schedule", "create", name, "--interval", "1h", "--function", "shop.bill", "-i", json.dumps(args))
        assert command(*line).code == 0


def args_of(command: Command, name: str) -> tuple[str, dict[str, object]]:
    """What a schedule calls."""
    target = command("schedule", "get", name, "-o", "json").json["target"]
    return target["function"], target["input"]


def test_those_that_fit_are_changed_and_the_others_told(made: None, command: Command) -> None:
    rehearsed = command(*[word for word in MANY if word != "--yes"], "--dry-run")
    assert rehearsed.err.splitlines()[1] == "would change 1 schedule"
    assert args_of(command, "m1") == ("shop.bill", {"order": 1})

    done = command(*MANY)

    assert (
        (done.code, done.out) == (rehearsed.code, rehearsed.out) == (6, 'm1\tinput\t{"order": 1} -> {"order_id": 1}\n')
    )
    assert done.err.splitlines() == [
        "error: schedule 'm2' has the argument 'order_id' already",
        "changed 1 schedule",
        "left out 1 schedule: declared in code, without such an argument, or as they should be",
    ]
    assert [args_of(command, name)[1] for name in ("m1", "m3")] == [{"order_id": 1}, {"other": 3}]


def test_another_function_and_rows_for_programs(made: None, command: Command) -> None:
    words = ("schedule", "update", "--query", "function:shop.bill id:m", "--function", "shop.order", "--yes")
    rows = command(*words, "-o", "json").json
    assert [(row["id"], row["changes"]["function"]) for row in rows] == [
        (name, ["shop.bill", "shop.order"]) for name in ("m1", "m2", "m3")
    ]
    assert args_of(command, "m3") == ("shop.order", {"other": 3})
    again = command(*words[:2], "--query", "id:m", *words[4:], "-o", "jsonl")
    assert (again.code, again.out, again.err.splitlines()[0]) == (0, "", "changed 0 schedules")
    assert command(*words).err == "changed 0 schedules\n"


def test_one_schedule_takes_new_names_too(made: None, command: Command) -> None:
    done = command("schedule", "update", "m1", "--rename", "order=order_id", "--notes", "renamed")
    assert done.code == 0
    assert args_of(command, "m1") == ("shop.bill", {"order_id": 1})
    assert command("schedule", "get", "m1", "-o", "json").json["note"] == "renamed"


def test_a_function_that_stays_keeps_its_app(made: None, command: Command) -> None:
    """The command line does not know the code: an app's schedule must not become one of no app."""
    app = shop()
    app.schedules.create("mine", when=every(hours=1), do=app.functions.resolve("shop.bill").with_args())
    whose = app.environment.store.read(lambda tx: tx.get_schedule("mine", tenant="default")).target.app
    assert whose == "shop"
    assert command("schedule", "update", "mine", "--input", '{"order": 5}').code == 0
    assert app.environment.store.read(lambda tx: tx.get_schedule("mine", tenant="default")).target.app == "shop"
    app.close()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--query", "id:m", "--overlap-policy", "Skip"], 2, "only --function and --rename go with it"),
        (["--query", "id:m", "--function", "shop.bill", "-i", "{}"], 2, "only --function and --rename go with it"),
        (["--query", "id:m", "--rename", "a=b", "--replace"], 2, "nothing to --unset or --rename"),
        (["m1", "--query", "id:m", "--rename", "a=b"], 2, "leave out the id and --if-version"),
        (["--query", "", "--rename", "a=b"], 2, "an empty --query would update everything"),
        (["--query", "id:m", "--rename", "a=b"], 2, "give --yes where no terminal can confirm it"),
        (["--query", "id:m", "--rename", "ab"], 2, "name both arguments"),
        (["--query", "id:m", "--function", "shop.bil", "--yes"], 3, "did you mean shop.bill?"),
        (["m1", "--rename", "nope=b"], 2, "schedule 'm1' has no argument 'nope'; it has order"),
        (["m1", "--rename", "order=b", "-i", "{}"], 2, "--input are all arguments; give either it or --rename"),
        (["--rename", "order=b"], 2, "which schedule? give its id"),
    ],
)
def test_what_cannot_be_meant_is_refused(made: None, command: Command, words: list[str], code: int, says: str) -> None:
    done = command("schedule", "update", *words)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
