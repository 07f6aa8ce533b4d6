"""`evertick run`: calling and scheduling from the terminal, each in a real process."""

import json
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evertick.base.ids import DEFAULT_TENANT
from evertick.store.open import open_settled
from tests.cli.conftest import copy_database
from tests.cli.programs import evertick

pytestmark = pytest.mark.processes

TYPES = """
from datetime import datetime, timedelta
from decimal import Decimal

from evertick import App

app = App("types")
other = App("other")


@app.mutation
def echo(
    ctx, text: str = "", number: int = 0, items: list[int] = [], at: datetime | None = None
) -> tuple[str, int, list[int], datetime | None]:
    return text, number, items, at


@app.query
def strange(ctx) -> list[str]:
    return ["\\x1b[31m", "\\u202e", "\\n", "ä☃"]


@app.query
def endless(ctx) -> dict[str, list[float]]:
    return {"a": [float("nan"), 1.5, float("-inf")]}


@app.mutation(name="billing.charge", internal=True)
def charge(ctx, amount: Decimal) -> Decimal:
    return amount * 2


@app.mutation
def count(ctx) -> int:
    ctx.db.insert("counts", {})
    return len(ctx.db.query("counts").collect())


@app.action
def plain_action(ctx, n: int) -> int:
    return ctx.run_mutation(count) + n


@app.action
async def async_action(ctx, n: int) -> int:
    return await ctx.run_mutation(count) + n


@app.workflow
async def onboard(step, text: str) -> None: ...
"""


@pytest.fixture
def types(tmp_path: Path, migrated_by_an_app: Path) -> Path:
    """A folder with an app that takes and gives values of many types, in a file with two apps, and its database."""
    (tmp_path / "app.py").write_text(TYPES.replace('other = App("other")\n', ""))
    copy_database(migrated_by_an_app, tmp_path, "types")
    return tmp_path


def result(folder: Path, *words: str, stdin: str = "") -> object:
    done = evertick(folder, "run", *words, stdin=stdin)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_words_are_read_by_the_signature(types: Path) -> None:
    assert result(types, "app.echo", "text=5", "number=5") == ["5", 5, [], None]
    assert result(types, "app.echo", "text=a=b", "items=[1,2]") == ["a=b", 0, [1, 2], None]
    assert result(types, "app.echo", "text=5", "items=[1]") == ["5", 0, [1], None]
    assert result(types, "app.echo", "at=2026-12-24T09:00:00+01:00")[3] == "2026-12-24T09:00:00+01:00"  # type: ignore[index]


def test_arguments_come_as_json_from_a_flag_a_file_or_stdin(types: Path) -> None:
    (types / "args.json").write_text('{"text": "file"}')

    assert result(types, "app.echo", "--json", '{"text": "flag", "number": 1}')[:2] == ["flag", 1]  # type: ignore[index]
    assert result(types, "app.echo", "--file", "args.json", "number=2")[:2] == ["file", 2]  # type: ignore[index]
    assert result(types, "app.echo", "--file", "-", stdin='{"text": "stdin"}')[0] == "stdin"  # type: ignore[index]


@pytest.mark.parametrize("words", [["--json", '{"text": "a", "text": "b"}'], ["text=a", 'items={"a": 1, "a": 2}']])
def test_a_member_that_is_there_twice_is_refused(types: Path, words: list[str]) -> None:
    refused = evertick(types, "run", "app.echo", *words)
    assert (refused.code, "is there twice" in refused.err) == (2, True), refused.err


def test_a_function_with_a_name_of_its_own_is_found_in_app_py(types: Path) -> None:
    assert result(types, "billing.charge", "amount=1.10") == "2.20"


def test_what_a_function_returns_cannot_move_the_cursor_and_reads_back_the_same(types: Path) -> None:
    done = evertick(types, "run", "app.strange")

    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert "ä☃" in done.out
    assert json.loads(done.out) == ["\x1b[31m", "\u202e", "\n", "ä☃"]


def test_numbers_that_json_lacks_are_null_and_a_note_says_so(types: Path) -> None:
    done = evertick(types, "run", "app.endless")

    assert done.code == 0
    assert json.loads(done.out, parse_constant=pytest.fail) == {"a": [None, 1.5, None]}
    assert done.err == "note: NaN and infinities are printed as null, because JSON has none\n"


def test_actions_run_here(types: Path) -> None:
    assert result(types, "app.plain_action", "n=10") == 11
    assert result(types, "app.async_action", "n=10") == 12


def test_an_idempotency_key_makes_a_second_call_answer_the_same(types: Path) -> None:
    first = result(types, "app.count", "--idempotency-key", "k")

    assert result(types, "app.count", "--idempotency-key", "k") == first == 1
    conflict = evertick(types, "run", "app.echo", "--idempotency-key", "k")
    assert conflict.code == 5
    assert conflict.err.startswith("error: the idempotency key 'k' was used for app.count")


def test_scheduling_prints_the_id_of_the_job(types: Path) -> None:
    done = evertick(types, "run", "app.count", "--after", "1h30m", "--key", "once")
    again = evertick(types, "run", "app.count", "--at", "2026-12-24T09:00:00Z", "--key", "once", "-o", "json")

    job_id = done.out.strip()
    job = json.loads(evertick(types, "job", "get", job_id, "-o", "json").out)
    assert job["state"] == "pending"
    assert job["key"] == "once"
    assert json.loads(again.out) == {"job_id": job_id, "due_at": job["due_at"]}


def test_a_job_is_given_options(types: Path) -> None:
    options = ("--limit-key", "ada", "--pool", "mail", "--priority", "5", "--retry", '{"attempts": 3, "first": "1s"}')
    job_id = evertick(types, "run", "app.count", "--after", "1h", *options).out.strip()

    job = json.loads(evertick(types, "job", "get", job_id, "-o", "json").out)
    assert (job["limit_key"], job["pool"], job["priority"]) == ("ada", "mail", 5)
    with closing(open_settled(f"sqlite:///{types}/.evertick/types.db")) as store:
        found = store.read(lambda tx: tx.get_job(job_id, tenant=DEFAULT_TENANT))
    assert found is not None
    assert found.retry is not None
    assert (found.retry.value.attempts, found.retry.value.first_ms) == (3, 1_000)


def test_times_are_read_as_everywhere_on_the_command_line(types: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    midnight = now.replace(hour=0, minute=0, second=0)
    year = now.year + 1

    def due(text: str) -> datetime:
        done = evertick(types, "run", "app.count", "--at", text, "-o", "json")
        return datetime.fromisoformat(json.loads(done.out)["due_at"])

    assert due(f"{year}-12-24T09:00") == datetime(year, 12, 24, 9, tzinfo=UTC)
    assert due(f"{year}-12-24") == datetime(year, 12, 24, tzinfo=UTC)
    assert due("tomorrow") in (midnight + timedelta(days=1), midnight + timedelta(days=2))
    assert now + timedelta(hours=2) <= due("now+2h") < now + timedelta(hours=3)
    assert now <= due("now-2h") < now + timedelta(hours=1), "what is past is due at once"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["app.nope"], 3, "no function 'app.nope' is registered"),
        (["nowhere.f"], 3, "no function 'nowhere.f' is registered"),
        (["app.echo", "nope=1"], 2, "nope: the function has no such parameter"),
        (["app.echo", "number=x"], 2, "number: input should be a valid integer"),
        (["app.echo", "number"], 2, "'number' is not an argument; write NAME=VALUE"),
        (["app.echo", "number=1", "number=2"], 2, "the argument 'number' is given twice"),
        (["app.echo", "--json", "["], 2, "--json: not JSON"),
        (["app.echo", "--json", "[1]"], 2, "--json must hold a JSON object"),
        (["app.echo", "--file", "nope.json"], 2, "No such file or directory"),
        (["app.echo", "--after", "-5s"], 2, "'-5s' is not a duration"),
        (["app.echo", "--after", "soon"], 2, "'soon' is not a duration; write it like '90s'"),
        (["app.echo", "--after", "3000d"], 2, "is more than 5 years in the future"),
        (["app.echo", "--at", "9999-12-31T23:59:59-14:00"], 2, "more than 5 years"),
        (["app.echo", "--at", "some day"], 2, "is not a date or time"),
        (["app.echo", "--at", "2026-12-24T09:00:00Z", "--after", "1s"], 2, "name two times"),
        (["app.echo", "--key", "k"], 2, "--key names a scheduled job"),
        (["app.echo", "--pool", "mail"], 2, "--pool is for a scheduled job; give --after or --at"),
        (["app.echo", "--limit-key", "ada"], 2, "--limit-key is for a scheduled job; give --after or --at"),
        (["app.echo", "--priority", "5"], 2, "--priority is for a scheduled job"),
        (["app.echo", "--after", "1s", "--priority", "5000"], 2, "priority= takes a whole number from"),
        (["app.echo", "--after", "1s", "--retry", "many"], 2, "--retry: not JSON"),
        (["app.onboard", "text=a b"], 2, "a workflow; start it: evertick workflow start app.onboard 'text=a b'\n"),
        (["app.strange", "--after", "1s"], 2, "is a query, which has no effect"),
        (["app.strange", "--idempotency-key", "k"], 2, "is not a mutation"),
        (
            ["app.echo", "--app", "missing.py"],
            2,
            "there is no file missing.py; name the one that holds the app: app.py",
        ),
        (["app.echo", "--app", "app.py:nope"], 2, "app.py:nope does not name an App"),
        (["app.echo", "--db", "mysql://x/y"], 2, "no database of the kind 'mysql'"),
        (["app.echo", 'items=[1,"a"]'], 2, "items[1]: input should be a valid integer"),
        (["app.echo", "text=5", 'items=[1,"a"]'], 2, "items[1]: input should be a valid integer"),
        (["app.echo", "items=[1,"], 2, "items is not JSON: "),
        (
            ["app.echo", "--db", "sqlite:///typo/typo.db"],
            7,
            "there is no database at typo/typo.db; if that is the right place, create it with",
        ),
        (["app.echo", "--db", "chat.db"], 2, "'chat.db' is no database address"),
    ],
)
def test_wrong_input_is_one_line_and_an_exit_code(types: Path, words: list[str], code: int, message: str) -> None:
    done = evertick(types, "run", *words)

    assert done.code == code
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert message in done.err
    assert not (types / "typo").exists()


def test_what_a_function_raises_is_one_line_with_its_place_or_all_of_it_when_asked(folder: Path) -> None:
    done = evertick(folder, "run", "app.fail", "text=no luck")
    more = evertick(folder, "run", "app.fail", "--traceback")

    assert done.code == more.code == 1
    assert done.err.startswith("error: app.fail raised ValueError: no luck (app.py:")
    assert "Traceback (most recent call last):" in more.err


def test_a_folder_without_an_app_is_named_once(tmp_path: Path) -> None:
    done = evertick(tmp_path, "run", "app.f")

    assert (done.code, done.err) == (2, "error: there is no app.py in this folder; name the app with --app FILE\n")
    assert "there is no shop.py or app.py in this folder" in evertick(tmp_path, "run", "shop.f").err


def test_what_a_function_asks_for_in_vain_has_its_place_too(folder: Path) -> None:
    done = evertick(folder, "run", "app.send", "body=hi", "delay=-1")

    assert done.code == 1
    message = r"error: app\.send raised InvalidDelay: delay must not be negative, got -1(\.0)? \(app\.py:\d+\)\n"
    assert re.fullmatch(message, done.err)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("async def f(ctx) -> None: ...", "is an `async def` mutation: a transaction must not wait"),
        ("def f(ctx) -> None: ...\n@app.mutation\ndef f(ctx) -> None: ...", "'app.f' is registered twice"),
        ("def f() -> None: ...", "app.f needs a first parameter for its context"),
        ("def f(ctx, a: 'Nowhere') -> None: ...", "its annotations cannot be resolved: name 'Nowhere' is not defined"),
        ("def f(ctx) -> None:\n  return (", "SyntaxError: '(' was never closed"),
        ("def f(ctx) -> None: ...\nraise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_an_app_that_cannot_work_is_an_error_with_its_place(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "app.py").write_text(f'from evertick import App\napp = App("broken")\n@app.mutation\n{code}\n')

    done = evertick(tmp_path, "run", "app.f")

    assert done.code == 1
    assert done.err.count("\n") == 1
    assert done.err.startswith("error: app.py:")
    assert message in done.err


def test_several_apps_in_one_file_must_be_told_apart(types: Path) -> None:
    (types / "app.py").write_text(TYPES)

    done = evertick(types, "run", "app.count")

    assert done.code == 2
    assert done.err == "error: app.py holds 2 apps; name one: app.py:app or app.py:other\n"
    assert result(types, "app.count", "--app", "app.py:app") == 1


def test_a_file_without_an_app_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")

    assert evertick(tmp_path, "run", "app.f").err == 'error: app.py holds no App; write `app = App("name")` in it\n'


def test_a_file_named_like_a_module_of_python_is_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text('from evertick import App\napp = App("x")\n')

    done = evertick(tmp_path, "worker", "json.py")

    assert done.code == 2
    assert done.err.endswith("rename the file\n")


def test_a_module_in_a_package_keeps_its_full_name(tmp_path: Path, migrated_by_an_app: Path) -> None:
    copy_database(migrated_by_an_app, tmp_path, "shop")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "main.py").write_text(
        'from evertick import App\napp = App("shop")\n\n@app.query\ndef here(ctx) -> str:\n    return __name__\n'
    )

    assert result(tmp_path, "shop.main.here") == "shop.main"


def test_a_function_without_a_module_is_told_where_it_may_be(tmp_path: Path) -> None:
    assert "such as app.build" in evertick(tmp_path, "run", "build").err
    (tmp_path / "saas.py").write_text("")
    assert "such as saas.build" in evertick(tmp_path, "run", "build").err
