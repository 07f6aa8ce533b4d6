"""`evertick schedule edit` with editors that are scripts, on a database and against a server; and `evertick open`."""

import re
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from tests.cli.desk import Command
from tests.cli.test_against_a_server import url
from tests.cli.test_every_command import ids, shop, shop_file
from tests.server.serving import serving

__all__ = ["ids", "shop_file", "url"]

Editor = Callable[..., None]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """Sets the editor: the n-th time that it is called, it does the n-th of some replacements, and the last one again.

    What it was shown each time is in the files shown-0, shown-1 and so on.
    """

    def use(*replacements: tuple[str, str], ends: str = "") -> None:
        script = tmp_path / "editor.py"
        script.write_text(
            "import pathlib, subprocess, sys\n"
            f"steps, here = {list(replacements)!r}, pathlib.Path({str(tmp_path)!r})\n"
            "file = pathlib.Path(sys.argv[1])\n"
            "number = len(list(here.glob('shown-*')))\n"
            "(here / f'shown-{number}').write_text(file.read_text())\n"
            "old, new = steps[min(number, len(steps) - 1)]\n"
            "file.write_text(file.read_text().replace(old, new))\n"
            f"{ends}\n"
        )
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")

    return use


def kept_text(err: str) -> str:
    """The text that a command says it has kept."""
    found = re.search(r"note: your text is kept in (\S+)\n", err)
    assert found is not None, err
    return Path(found[1]).read_text()


@pytest.mark.parametrize("where", ["a database", "a server"])
def test_what_is_edited_is_applied(where: str, url: str, editor: Editor, command: Command, tmp_path: Path) -> None:
    there = () if where == "a database" else ("--url", url)
    editor(("function: shop.bill", "function: shop.bill\n  overlap: buffer_all"))
    done = command("schedule", "edit", "s", "--yes", *there)
    assert (done.code, done.err) == (0, "s changed\n")
    assert re.fullmatch(r"~ s\n    overlap           skip -> buffer_all\n", done.out)
    assert command("schedule", "get", "s", "-o", "json").json["policies"]["overlap"] == "buffer_all"
    assert (tmp_path / "shown-0").read_text().startswith("#| s: save and close; ")


def test_what_cannot_be_applied_comes_back_with_the_reason_and_its_line(
    ids: dict[str, str], editor: Editor, command: Command, tmp_path: Path
) -> None:
    editor(("function:", "functon:"), ("  functon:", "  jitter: 5x\n  function:"), ("5x", "5s"))
    done = command("schedule", "edit", "s", "--yes")
    assert (done.code, done.err) == (0, "s changed\n")
    first, second, third = ((tmp_path / f"shown-{number}").read_text().splitlines() for number in range(3))
    assert not any("line" in line for line in first)
    [told] = [line for line in second if "functon" in line and line.startswith("#| ")]
    number = int(re.fullmatch(r"#\| line (\d+): s: functon: .* did you mean 'function'\?", told)[1])  # type: ignore[index]
    assert "functon:" in second[number - 1]
    assert any(line.startswith("#| ") and "5x" in line for line in third)
    assert command("schedule", "get", "s", "-o", "json").json["spec"]["jitter"] == "5s"


def test_a_text_that_stays_wrong_is_kept(ids: dict[str, str], editor: Editor, command: Command) -> None:
    editor(("- id: s", "- id: s\n  bad: ["), ("nothing", "nothing"))
    done = command("schedule", "edit", "s", "--yes")
    assert done.code == 2
    assert "the text was not mended: line" in done.err
    assert "bad: [" in kept_text(done.err)


@pytest.mark.long
def test_an_edit_meanwhile_is_a_conflict_and_the_text_is_kept(
    ids: dict[str, str], editor: Editor, command: Command
) -> None:
    change = [sys.executable, "-m", "evertick.cli.main", "schedule", "update", "s", "--jitter", "1s", "-o", "none"]
    editor(("function: shop.bill", "function: shop.bill\n  overlap: buffer_all"), ends=f"subprocess.run({change!r})")
    done = command("schedule", "edit", "s", "--yes")
    assert (done.code, done.out) == (5, "")
    assert "s was changed meanwhile, from version" in done.err
    assert "overlap: buffer_all" in kept_text(done.err)
    found = command("schedule", "get", "s", "-o", "json").json
    assert (found["spec"]["jitter"], found["policies"]["overlap"]) == ("1s", "skip")


def test_nothing_is_done_without_a_change_a_yes_or_an_editor(
    ids: dict[str, str], editor: Editor, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(("nothing", "nothing"))
    assert command("schedule", "edit", "s", "--yes").err == "s: nothing changed\n"
    assert command("schedule", "edit", "s").code == 2
    assert command("schedule", "edit", "c", "--yes").err.startswith("error: c is a cron that is declared in code")
    monkeypatch.setenv("EDITOR", "false")
    failed = command("schedule", "edit", "s", "--yes")
    assert (failed.code, "kept" in failed.err) == (1, False)

    editor(("function: shop.bill", "function: shop.bill\n  overlap: buffer_all"))
    monkeypatch.setattr("evertick.cli.schedule.files.edit.is_terminal", lambda stream: True)
    monkeypatch.setattr(click, "confirm", lambda *args, **options: (_ for _ in ()).throw(click.Abort()))
    refused = command("schedule", "edit", "s")
    assert refused.code == 130
    assert "overlap: buffer_all" in kept_text(refused.err)
    assert command("schedule", "get", "s", "-o", "json").json["policies"]["overlap"] == "skip"


def test_a_pause_ends_with_its_line(ids: dict[str, str], editor: Editor, command: Command, tmp_path: Path) -> None:
    assert command("schedule", "pause", "s", "--reason", "rest").code == 0
    editor(("  paused: true\n", ""))
    assert command("schedule", "edit", "s", "--yes").code == 0
    assert "paused: true" in (tmp_path / "shown-0").read_text()
    assert command("schedule", "get", "s", "-o", "json").json["state"] == "active"


def test_pages_of_a_server_are_opened(ids: dict[str, str], command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    there = ("--print", "--url", "https://jobs.example.org/")
    assert command("open", *there).out == "https://jobs.example.org/t/default\n"
    assert (
        command("open", "schedule", "a/b c", *there).out == "https://jobs.example.org/t/default/schedules/a%2Fb%20c\n"
    )
    assert command("open", "workflow", "r", "--tenant", "acme", *there).out.endswith("/t/acme/workflows/r\n")
    assert command("open", "job", *there).err.startswith("error: which job? give its id")
    assert command("open", "token", "x", *there).code == 2

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    done = command("open", "job", "j", *there[1:])
    assert (opened, done.out) == (["https://jobs.example.org/t/default/jobs/j"], "")
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert command("open", "job", "j", *there[1:]).out == "https://jobs.example.org/t/default/jobs/j\n"


def test_the_tenant_of_the_page_is_that_of_the_token(ids: dict[str, str], command: Command) -> None:
    app = shop()
    app.open()
    secret = app.tokens.create("me", tenant="acme").secret
    with serving(app) as address:
        assert command("open", "--print", "--url", address, "--token", secret).out == f"{address}/t/acme\n"
    app.close()
