"""A schedule whose time zone is gone: each command names it, with an exit code, and all that is asked of it works."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.desk import Command

GONE = json.dumps({"crons": ["0 9 * * *"], "time_zone": "Mars/Olympus"})
APP = """
from evertick import App, MutationCtx

app = App("shop")


@app.mutation(name="note")
def note(ctx: MutationCtx, text: str = "") -> None: ...
"""
NEW = ("--replace", "--function", "note", "--cron", "0 9 * * *", "--time-zone", "Europe/Berlin")


def damage(column: str, text: str) -> None:
    with sqlite3.connect(Path(".evertick", "shop.db")) as connection:
        connection.execute(f"update evertick_schedules set {column} = ? where id = 'broken'", (text,))


@pytest.fixture
def shop(command: Command, migrated_shop: None) -> Command:
    Path("app.py").write_text(APP)
    for name in ("broken", "healthy"):
        done = command("schedule", "create", "--sid", name, "--function", "note", "--cron", "0 9 * * *")
        assert done.code == 0, done.err
    damage("spec", GONE)
    return command


@pytest.mark.parametrize(
    "asked",
    [("status",), ("doctor", "app.py"), ("doctor", "--fleet"), ("schedule", "audit"), ("schedule", "audit", "broken")],
    ids=" ".join,
)
def test_it_is_named_with_an_exit_code(shop: Command, asked: tuple[str, ...]) -> None:
    done = shop(*asked)
    assert done.code == 8, done.err
    assert "broken" in done.out and "Mars/Olympus" in done.out and "healthy" not in done.out


def test_it_is_listed_described_paused_replaced_and_deleted(shop: Command) -> None:
    listed = {each["id"]: each["state"] for each in shop("schedule", "list", "-o", "json").json}
    assert listed == {"broken": "unreadable", "healthy": "active"}
    described = shop("schedule", "describe", "broken")
    assert (described.code, "Mars/Olympus" in described.out + described.err) == (0, True)
    for asked in (("pause", "broken", "--reason", "wait"), ("resume", "broken"), ("update", "broken", *NEW)):
        done = shop("schedule", *asked)
        assert done.code == 0, done.err
    assert shop("status").code == 0

    damage("target", "{oops")
    refused = shop("schedule", "update", "broken", "--notes", "n")
    assert (refused.code != 0, "cannot be changed in part" in refused.err) == (True, True)
    assert shop("schedule", "delete", "broken").code == 0


@pytest.mark.parametrize("column", ["spec", "target", "state", "memo"])
def test_a_file_replaces_it(shop: Command, column: str) -> None:
    damage(column, "{oops")
    entry = {"id": "broken", "when": "0 10 * * *", "function": "note", "args": {}}
    Path("schedules.json").write_text(json.dumps({"schedules": [entry]}))
    done = shop("schedule", "apply", "schedules.json", "--yes")
    assert done.code == 0, done.err
    assert shop("status").code == 0
    assert shop("schedule", "export", "broken", "-o", "json").json["schedules"][0]["when"] == {"crons": ["0 10 * * *"]}
