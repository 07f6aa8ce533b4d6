"""The small parts of the command line: help, versions, completion, and text that is safe on a terminal."""

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tzdata
from hypothesis import given
from hypothesis import strategies as st

from evertick import __version__
from evertick.base.durations import clock_time, distance, length, wait
from evertick.base.errors import (
    AccessDenied,
    Conflict,
    DatabaseLocked,
    EvertickError,
    InvalidArguments,
    JobNotFound,
    Misuse,
    NotFound,
    Unavailable,
)
from evertick.base.escaping import json_text, one_line, printable
from evertick.base.instants import Instant
from evertick.cli.core import descriptors
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.loading import AppNotFound, parse_target
from evertick.cli.dev.lines import WORDS_MAX, DevHandler
from evertick.cli.root import COMMANDS, EPILOG, run
from evertick.store.schema import steps
from tests.cli.test_every_command import LEAVES


def test_version_answers_without_loading_click_or_pydantic() -> None:
    code = (
        "import sys; sys.argv = ['evertick', '--version']\n"
        "from evertick.cli.main import main\n"
        "assert main() == 0\n"
        "assert not {'click', 'pydantic', 'sqlite3', 'asyncio'} & set(sys.modules), sorted(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"evertick {__version__}\n", "")


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys\n"
        "from evertick.cli.root import run\n"
        "assert run(['--help']) == 0\n"
        "assert not {'pydantic', 'evertick.cli.dev.command', 'evertick.cli.run'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for name, lazy in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert lazy.words[:40] in done.stdout


HEAVY = ("pydantic", "sqlite3", "psycopg", "httpx2", "evertick.store.store", "evertick.app.app")
"""What no help needs: schemas, drivers, the client's library, stores and apps."""
MODULES_MAX = 230
"""Modules that a command may import for its help: those of `evertick --help`, and about a hundred more."""


def test_the_help_of_each_command_imports_neither_schemas_nor_stores_nor_engine() -> None:
    """Counted, not timed: time depends on what else the machine does."""
    code = (
        "import contextlib, io, json, os, sys\n"
        "from evertick.cli.root import run\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    reader, writer = os.pipe()\n"
        "    if os.fork() == 0:\n"
        "        with contextlib.redirect_stdout(io.StringIO()):\n"
        "            run([*words.split(), '--help'])\n"
        "        os.write(writer, json.dumps(sorted(sys.modules)).encode())\n"
        "        os._exit(0)\n"
        "    os.close(writer)\n"
        "    with open(reader) as told:\n"
        "        print(json.dumps([words, json.loads(told.read())]))\n"
    )
    words = json.dumps(sorted(LEAVES))
    done = subprocess.run([sys.executable, "-c", code, words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    imported = dict(json.loads(line) for line in done.stdout.splitlines())
    assert imported.keys() == LEAVES.keys()
    for name, modules in imported.items():
        assert not set(HEAVY) & set(modules), name
        assert len(modules) <= MODULES_MAX, f"evertick {name} --help imports {len(modules)} modules"


@pytest.mark.parametrize("group", ["job", "cron", "schedule"])
def test_the_list_of_commands_in_a_group_cuts_no_sentence(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([group, "--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("words", "told"),
    [("run app.add --file -", "error: --file -: "), ("schedule preview --file -", "")],
)
def test_an_input_that_is_closed_holds_nothing(words: str, told: str, folder: Path) -> None:
    command = f"{sys.executable} -P -m evertick.cli.main {words} <&-"

    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (2 if told else 0, "")
    assert done.stderr.startswith(told)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["a" * 300 + ".py", "a" * 300 + ".py:app", "a/" * 3000 + "b.py"])
def test_a_name_that_no_file_can_have_is_no_app(text: str) -> None:
    with pytest.raises(AppNotFound, match=r"^there is no file a.{79}\.\.\.: File name too long$"):
        parse_target(text)


@pytest.mark.long
@pytest.mark.parametrize(("target", "code", "err"), [("/dev/full", 1, "error: cannot write"), ("&-", 0, "")])
def test_output_that_cannot_be_written_is_no_traceback(target: str, code: int, err: str) -> None:
    line = f"exec {sys.executable} -m evertick.cli.main version -o json >{target}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr[: len(err)], done.stderr.count("\n")) == (code, err, bool(err))


@pytest.mark.parametrize(
    "words", ["--version", "--help", "job list --help", "preview", "schedule preview --cron @hourly --count 5000"]
)
def test_a_reader_that_ends_early_is_no_error(words: str) -> None:
    """`evertick ... | head -1`: the reader is gone before the first line, or while lines are written."""
    line = f"set -o pipefail; {sys.executable} -m evertick.cli.main {words} 2>&1 | {{ exec <&-; sleep 0; }}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (2 if words == "preview" else 0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"Usage: evertick {name}" in capsys.readouterr().out


def test_schedule_preview_needs_no_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", "preview", "--cron", "0 9 * * *", "--after", "2026-01-01T00:00:00Z", "-n", "1"]) == 0
    assert "2026-01-01T09:00:00" in capsys.readouterr().out


def test_versions_are_words_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["evertick"] == __version__
    assert {"schema", "python", "sqlite", "pydantic", "psycopg", "tzdata"} <= found.keys()
    assert found["zone_data"] == f"{tzdata.IANA_VERSION}, from the package tzdata"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_prints_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_EVERTICK_COMPLETE" in capsys.readouterr().out


def test_an_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["xyzzy"]) == 2
    assert capsys.readouterr().err == "error: No such command 'xyzzy'. (see evertick --help)\n"


@pytest.mark.parametrize(
    ("words", "meant"), [(["jobs"], "job"), (["runn"], "run"), (["sched"], "schedule"), (["schedule", "lst"], "list")]
)
def test_a_misspelt_command_is_told_what_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert re.search(rf"No such command '{words[-1]}'; did you mean .*\b{meant}\b.*\?", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArguments, 2), (Misuse, 2), (JobNotFound, 3), (NotFound, 3), (Conflict, 5), (DatabaseLocked, 7),
        (Unavailable, 7), (AccessDenied, 4), (EvertickError, 1),
    ],
)  # fmt: skip
def test_every_branch_of_errors_has_an_exit_code(error: type[EvertickError], code: int) -> None:
    assert exit_code_of(error("x")) == code


@given(st.text())
def test_printable_text_never_holds_what_a_terminal_obeys(text: str) -> None:
    shown = printable(text)

    assert all(char.isprintable() or char in "\u00a0\u1680\u202f\u205f\u3000" or "\u2000" <= char <= "\u200a"
               for char in shown)  # fmt: skip
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode("utf-8")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_is_safe_and_reads_back_the_same(value: object) -> None:
    for indent in (None, 2):
        text = json_text(value, indent=indent)
        assert json.loads(text) == value
        assert not any(ord(char) < 32 and char != "\n" for char in text)
        text.encode("utf-8")


def test_a_message_of_several_lines_becomes_one() -> None:
    assert one_line("no\n\troute\x07 to host") == r"no route\x07 to host"


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (1_499, "1.5 s"), (5_040, "5 s"), (12_400, "12 s"),
        (60_000, "1 min"), (7_200_000, "2 h"), (86_400_000, "1 d"), (-5_000, "5 s"),
    ],
)  # fmt: skip
def test_durations_in_words(duration_ms: int, words: str) -> None:
    assert length(duration_ms) == words


def test_distances_and_days_in_words() -> None:
    now = Instant(1_800_000_000_000)

    assert distance(Instant(now + 5_000), now) == "in 5 s"
    assert distance(Instant(now - 120_000), now) == "2 min ago"
    assert distance(Instant(now + 400), now) == "now"
    assert [wait(Instant(now + ms), now) for ms in (-1, 0, 250, 5_000)] == ["now", "now", "in 250 ms", "in 5 s"]
    assert len(clock_time(now, now)) == len("09:00:00")
    assert len(clock_time(Instant(now + 3 * 86_400_000), now)) == len("2026-12-24 09:00:00")


def test_a_file_is_known_by_the_name_python_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg" / "sub").mkdir(parents=True)
    for file in ("app.py", "pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/main.py", "with-dash.py"):
        (tmp_path / file).touch()

    target = parse_target("pkg/sub/main.py:orders")

    assert (target.root, target.module, target.variable) == (tmp_path, "pkg.sub.main", "orders")
    assert parse_target("pkg/__init__.py").module == "pkg"
    assert parse_target("app.py").variable is None
    assert parse_target("some.module:x").module == "some.module"
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").touch()
    for wrong, words in {
        "missing.py": "its folder holds app.py",
        "pkg/": "is a folder",
        "folder": "folder is a folder; name the file that holds the app, such as folder/app.py",
        "notes.txt": "is not a Python file",
        "with-dash.py": "cannot be imported",
    }.items():
        with pytest.raises(AppNotFound, match=words):
            parse_target(wrong)


def test_a_folder_without_app_py_is_told_which_file_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saas.py").write_text("from evertick import App\n\napp = App('saas')\n")
    (tmp_path / "notes.py").write_text("# app = App('notes')\n")

    with pytest.raises(AppNotFound, match=r"there is no file app\.py; name the one that holds the app: saas\.py$"):
        parse_target("app.py")

    (tmp_path / "other.py").write_text("import evertick\nshop: evertick.App = evertick.App('other')\n")
    with pytest.raises(AppNotFound, match=r"name the one that holds your app: other\.py or saas\.py$"):
        parse_target("app.py")


@pytest.mark.parametrize("text", [".", "..", "./"])
def test_a_folder_given_for_a_file_is_named_as_one(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(AppNotFound, match="is a folder; name the file"):
        parse_target(text)


def test_migrate_in_a_new_folder_takes_the_app_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVERTICK_DATABASE_URL", raising=False)
    assert run(["migrate"]) == 2
    assert "there is no database in .evertick/" in capsys.readouterr().err
    (tmp_path / "app.py").write_text("from evertick import App\napp = App('shop')\n")

    assert run(["migrate"]) == 0

    assert (tmp_path / ".evertick" / "shop.db").exists()


def test_migrate_says_as_data_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shop.db"
    said = []
    for _ in range(2):
        assert run(["migrate", "--db", f"sqlite:///{path}", "-o", "json"]) == 0
        said.append(json.loads(capsys.readouterr().out))

    names = [step.name for step in steps("sqlite")]
    assert said == [{"database": str(path), "steps": each} for each in (names, [])]


def test_a_long_log_line_is_cut_and_says_how_much_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("evertick.functions", logging.INFO, __file__, 1, "x" * 1_000_000, None, None)

    DevHandler().emit(record)

    line = capsys.readouterr().out
    assert line.endswith(f"{'x' * WORDS_MAX}… and 998,000 characters more\n")
    assert len(line) < WORDS_MAX + 200


def test_every_exit_code_is_in_the_help_and_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "command-line.md").read_text("utf-8")
    assert [int(code) for code in re.findall(r"\b(\d+) [a-z]", EPILOG)] == [*Exit]
    assert [int(code) for code in re.findall(r"^\| (\d+) \| ", guide, re.MULTILINE)] == [*Exit]


def test_a_database_whose_rights_change_has_not_lost_its_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lost = tmp_path / "shop.db", list[int]()
    monkeypatch.setattr(descriptors, "_end", lambda stderr, found: lost.extend(found))

    def kept(change: Callable[[int], None]) -> list[int]:
        lost.clear()
        url, file = f"sqlite:///{path}", path.open("w")
        with file, contextlib.suppress(LookupError), descriptors.descriptors_kept(url):
            change(file.fileno())
            raise LookupError  # a look is made at once
        return list(lost)

    assert kept(lambda _: path.chmod(0o444)) == []
    path.chmod(0o644)
    with open(os.devnull) as other:
        assert len(kept(lambda descriptor: os.dup2(other.fileno(), descriptor))) == 1
