"""A schedule whose arguments no live worker's function takes is noted where no code is at hand."""

from pathlib import Path

import pytest

from evertick import App
from evertick.app.functions_by_name import problem_of
from evertick.base.ids import WorkerId
from evertick.base.instants import HOUR_MS, Instant
from evertick.base.records.jobs import SERVES, FunctionKind, ServedFunction, Serves, Worker
from tests.cli.desk import Command

CASES = [
    ("(user: str)", {"user": "ada"}, None),
    ("(user: str)", {"usr": "ada"}, "no parameter 'usr'"),
    ("(user: str)", {}, "'user' is missing"),
    ("(user: str, n: int = 3)", {"user": "ada"}, None),
    ("(n: int)", {"n": "5"}, None),  # as a run reads it
    ("(n: int)", {"n": "five"}, "'n' must be int, not \"five\""),
    ("(user: str)", {"user": 5}, "'user' must be str, not 5"),
    ("(*, when: datetime.datetime, **more)", {"when": "x", "other": 1}, None),
    ("(user: str = <object at 0x1>)", {"usr": 1}, None),
    ("(user: st", {"usr": 1}, None),  # it was cut
]


@pytest.mark.parametrize(("signature", "args", "problem"), CASES, ids=[f"{each[0]} {each[1]}" for each in CASES])
def test_arguments_are_compared_with_a_signature(signature: str, args: dict[str, object], problem: str | None) -> None:
    assert problem_of(signature, args) == problem


def test_a_schedule_that_no_live_worker_could_run_is_noted(command: Command, migrated_shop: None) -> None:
    app = App("shop", database_url=f"sqlite:///{Path('.evertick', 'shop.db')}")
    now = app.environment.clock.now()
    serves = Serves((ServedFunction("shop.bill", FunctionKind.MUTATION, "shop.default", "(user: str)"),))
    worker = Worker(
        WorkerId("worker_1"), now, Instant(now + HOUR_MS), "here", 1, app="shop", serves=SERVES.value(serves)
    )
    app.environment.store.write(lambda tx: tx.register_worker(worker))
    app.close()
    create = ("schedule", "create", "--function", "shop.bill", "--cron", "0 9 * * *")

    wrong = command(*create, "--sid", "a", "--input", '{"usr": "ada"}')
    right = command(*create, "--sid", "b", "--input", '{"user": "ada"}')

    assert (wrong.code, right.code) == (0, 0), wrong.err + right.err
    assert "note: no live worker's shop.bill(user: str) takes these arguments: no parameter 'usr'" in wrong.err
    assert "note: no live worker" not in right.err
    assert command("schedule", "preview", "--cron", "0 0 30 2 *").code == 8
    assert command("schedule", "preview", "--cron", "0 0 28 2 *").code == 0
