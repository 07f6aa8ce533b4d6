"""`evertick script` beyond its plain calls: sources, mistakes, the app's functions, and schedules that run scripts."""

import io
import sys
from pathlib import Path

import pytest

from evertick.cli.core.loading import load_app, parse_target
from tests.cli.desk import Command, work_off
from tests.walls import level

APP = """
from evertick import App, QueryCtx

app = App("shop")
app.scripts.tables("outbox", write=["outbox"])


@app.scripts.host
def twice(ctx: QueryCtx, n: int) -> int:
    return 2 * n
"""
TWICE = "export default async (ctx) => { ctx.log('n', ctx.input); return await ctx.twice(ctx.input); }\n"


@pytest.fixture(autouse=True)
def files(migrated_shop: None) -> None:
    """An app with a function for scripts, and a script that calls it."""
    Path("app.py").write_text(APP)
    Path("twice.js").write_text(TWICE)


def test_a_script_is_written_tested_published_and_run(command: Command) -> None:
    assert command("script", "list").err == "no scripts\n"
    made = command("script", "create", "twice", "twice.js", "--parameters", '{"type": "integer"}')
    assert made.err.startswith("created the draft of twice")
    tried = command("script", "test", "twice", "-i", "4", "--app", "app.py", "-o", "json").json
    assert (tried["outcome"], tried["result"], tried["logs"][0]["text"]) == ("ok", 8, "n 4")
    bare = command("script", "test", "twice", "-i", "4")
    assert (bare.code, bare.out.splitlines()[0], "--app" in bare.err) == (1, "outcome\terror", True)
    assert command("script", "publish", "twice").err == "version 1 of twice runs from now on\n"
    assert "--app" in command("script", "run", "twice", "-i", "1").err
    job_id = command("script", "run", "twice", "-i", "21", "--app", "app.py").out.strip()

    work_off(sys.modules["app"].app, 1)

    assert command("job", "get", job_id, "-o", "json").json["result"] == 42
    assert command("script", "logs", "twice").out.endswith("info     n 21\n")
    [ended] = command("script", "runs", "twice", "-o", "json").json
    assert (ended["outcome"], ended["host_calls"], ended["isolation"]) == ("ok", {"twice": 1}, level())
    assert command("script", "run", "twice", "-i", "1").code == 0  # it is known now whose workers run it


def test_mistakes_have_a_line_and_a_column(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("def f(:\n    pass\n"))
    done = command("script", "create", "bad", "-", "--language", "python")
    assert (done.code, "(line 1, column" in done.err) == (2, True)
    assert "--language says" in command("script", "create", "bad", "-").err
    command("script", "create", "twice", "twice.js")
    assert command("script", "run", "twice", "--app", "app.py").err == (
        "error: the script 'twice' has no version yet; publish its draft\n"
    )
    assert command("script", "edit", "twice", "--if-revision", "1", "--note", "x").code == 5


def test_a_draft_is_edited_in_an_editor(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    command("script", "create", "twice", "twice.js")
    code = "import pathlib, sys; f = pathlib.Path(sys.argv[1]); f.write_text('// new\\n' + f.read_text())"
    Path("editor.py").write_text(code)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {Path('editor.py').resolve()}")
    monkeypatch.delenv("VISUAL", raising=False)
    assert command("script", "edit", "twice").err.startswith("saved the draft of twice")
    assert command("script", "get", "twice", "--source").out == "// new\n" + TWICE
    monkeypatch.setenv("EDITOR", "true")
    assert command("script", "edit", "twice").err == "nothing was changed\n"


def test_a_schedule_runs_a_script_and_is_named_after_it(command: Command) -> None:
    command("script", "create", "twice", "twice.js", "--parameters", '{"type": "integer"}')
    new = ("schedule", "create", "daily", "--cron", "0 9 * * *", "--script", "twice")
    assert "no version yet" in command(*new, "--input", "3").err
    command("script", "publish", "twice")
    assert "must be of type integer" in command(*new, "--input", '"x"').err
    assert "no script 'none'" in command(*new[:-1], "none").err
    assert "give one" in command(*new, "--function", "app.x").err
    made = command(*new, "--input", "3", "-o", "json").json
    assert (made["script"], made["target"]["input"]) == ("twice", {"script": "twice", "input": 3})

    assert command("schedule", "list", "--fields", "id,function").out == "daily\tscript twice\n"
    assert "target\tscript twice  3\n" in command("schedule", "describe", "daily").out
    assert command("schedule", "list", "-o", "json").json[0]["function"] == "evertick.script"
    assert "is used by the schedules daily" in command("script", "delete", "twice").err
    assert command("schedule", "update", "daily", "--script", "twice", "--input", "5").code == 0
    command("schedule", "trigger", "daily")

    work_off(load_app(parse_target("app.py")).app, 1)

    [ended] = command("script", "runs", "-o", "json").json
    assert (ended["outcome"], ended["schedule_id"]) == ("ok", "daily")


def test_limits_of_a_tenant_are_changed_and_taken_back(command: Command) -> None:
    def limits(*words: str) -> dict[str, object]:
        found: dict[str, object] = command("script", "limits", *words, "--tenant", "acme", "-o", "json").json
        return found

    assert limits("cpu-ms=900", "hosts=a.example,b.example")["own"] == ["cpu_ms", "hosts"]
    assert limits("hosts=none")["own"] == ["cpu_ms"]
    assert "cpu_ms=900" in command("script", "limits", "--tenant", "acme").out


def test_limits_name_the_schedules_that_no_longer_fit(command: Command) -> None:
    command("script", "create", "twice", "twice.js")
    command("script", "publish", "twice")
    command("schedule", "create", "often", "--when", "every 2 minutes", "--script", "twice", "--input", "1")

    raised = command("script", "limits", "interval_ms=180000")

    assert "the times of often are less than 180 s apart (interval_ms)" in raised.err
    assert command("script", "limits", "-o", "json").json["misfits"] == ["often"]
