"""What every command prints with `-o json` is what docs/reference/json.md says, on a database and against a server."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema_rs import Draft202012Validator

from evertick.app.schedules.bodies import WrittenSchedule
from tests.cli.desk import Command
from tests.cli.test_against_a_server import NO_SERVER, url
from tests.cli.test_every_command import LEAVES, ROWS, ids, shop_file
from tests.sampling import one_in
from tools import json_forms
from tools.json_forms import ALL, ELSEWHERE, FORMS, Form

__all__ = ["ids", "shop_file", "url"]

CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "run": ("shop.bill --after 1h",),
    "job get": ("FAILED", "FAILED DONE PENDING"),
    "schedule backfill": (
        ROWS["schedule backfill"].words,
        f"{ROWS['schedule backfill'].words} --dry-run",
        "--query id:s --start-time now-3h --end-time now --dry-run",
    ),
    "schedule pause": ("s --reason rest", "--query id:s --reason rest --yes"),
    "schedule resume": ("s", "--query id:s --yes"),
    "schedule delete": ("s", "--query id:s --yes"),
    "schedule edit": ("s --yes",),
    "schedule apply": ("schedules.json --yes",),
    "schedule preview": ("--cron @hourly --jitter 5s", "--cron @hourly --jitter 5s"),
    "workflow start": ("shop.flow",),
    "workflow children": ("RUN",),
    "workflow restart": ("ENDED", "ENDED RUN --yes", "--workflow shop.flow --yes"),
    "workflow history": ("ENDED", "ENDED"),
    "workflow type list": ("--deleted",),
    "script get": ("echo", "echo --version 1"),
    "tenant list": ("",),
    "token list": ("",),
    "token revoke": ("TOKEN",),
    "token rotate": ("TOKEN",),
    "doctor": ("app.py", "--fleet"),
}
"""A call for each form of a command, where it is not the good call of its row."""
OF_DATABASES: Final = {("doctor", 0)}
"""Forms, by their command and number, that servers do not give."""
EMPTY: Final = {"workflow children"}
"""A list without elements in the database of these tests; its form is that of `workflow list`."""
CODE: Final = "from tests.cli.test_every_command import shop\n\napp = shop()\n"
CASES: Final = [(name, number) for name, forms in FORMS.items() for number in range(len(forms))]


@pytest.fixture(autouse=True)
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that changes what it is given."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text().replace('function: shop.bill', 'function: shop.bill\\n  jitter: 5s'))\n"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")


def has_json(name: str) -> bool:
    """Whether a command has `-o json`."""
    return any("-o" in each.opts and "json" in getattr(each.type, "choices", ()) for each in LEAVES[name].params)


def test_every_command_with_json_is_described() -> None:
    assert ALL.keys() | ELSEWHERE.keys() == {name for name in LEAVES if has_json(name)} | {"api"}


def test_the_page_is_that_of_the_code() -> None:
    assert json_forms.PAGE.read_text("utf-8") == json_forms.page(), "run `python -m tools.json_forms`"


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_database_gives_what_is_described(
    name: str, number: int, ids: dict[str, str], command: Command, tmp_path: Path
) -> None:
    check_call(name, number, ids, command, tmp_path)


@pytest.mark.parametrize(
    ("name", "number"),
    one_in(6, [case for case in CASES if case[0] not in NO_SERVER and case not in OF_DATABASES]),
)
def test_a_server_gives_what_is_described(
    name: str, number: int, ids: dict[str, str], url: str, command: Command, tmp_path: Path
) -> None:
    check_call(name, number, ids, command, tmp_path, "--url", url)


@pytest.mark.parametrize("where", ["a database", "a server"])
def test_an_export_is_a_file_of_written_schedules(where: str, url: str, command: Command) -> None:
    done = command("schedule", "export", "-o", "json", *(("--url", url) if where == "a server" else ()))
    assert [WrittenSchedule.model_validate(each).id for each in done.json["schedules"]] == ["s"]


@pytest.mark.parametrize("change", ["a field more", "a field less", "another type"])
def test_a_difference_is_noticed(change: str, ids: dict[str, str], command: Command) -> None:
    row = command("job", "get", ids["FAILED"], "-o", "json").json
    form = FORMS["job get"][0]
    assert not list(strict(form).iter_errors(row))
    if change == "a field more":
        row["more"] = 1
    elif change == "a field less":
        del row["schedule"]
    else:
        row["due_at"] = 1_700_000_000_000
    assert list(strict(form).iter_errors(row))


# -- helpers


def check_call(name: str, number: int, ids: dict[str, str], command: Command, folder: Path, *server: str) -> None:
    """Call a command as its form says; check every value that it prints."""
    (folder / "app.py").write_text(CODE)
    made = {"id": "made", "when": "0 9 * * *", "function": "shop.bill"}
    (folder / "schedules.json").write_text(json.dumps({"schedules": [made]}))
    form = FORMS[name][number]
    words = CALLS.get(name, (ROWS[name].words,))[number].split()
    is_lines = "jsonl" in form.when
    done = command(
        *name.split(), *(ids.get(word, word) for word in words), "-o", "jsonl" if is_lines else "json", *server
    )
    assert done.code in (0, 8), done.err  # 8: checked, and something is to be complained of
    printed = [json.loads(line) for line in done.out.splitlines()] if is_lines else done.json
    assert isinstance(printed, list) is form.many
    values = printed if form.many else [printed]
    assert values or name in EMPTY, "nothing to compare"
    check = strict(form)
    for value in values:
        assert [f"{error.instance_path}: {error.message}" for error in check.iter_errors(value)] == []


def strict(form: Form) -> Draft202012Validator:
    """Checks values of a form: a field that is not described is an error, too."""
    schema = json_forms.schema_of(form)
    for each in _objects(schema):
        each["additionalProperties"] = False
    return Draft202012Validator(schema, validate_formats=True)


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """All parts of a schema that list the fields of an object."""
    if isinstance(schema, list):
        for each in schema:
            yield from _objects(each)
    elif isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema
        for each in schema.values():
            yield from _objects(each)
