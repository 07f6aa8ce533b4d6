"""`evertick gateway run` and `evertick gateway check`."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.programs import Start, evertick

CONFIG = """
name = "edge-1"
listen = "127.0.0.1:0"
token_file = "token"
"""
LISTENS = r"listens at (http://[\d.:]+)"


@pytest.mark.processes
def test_a_gateway_runs_and_is_checked(folder: Path, start: Start) -> None:
    (folder / "gateway.toml").write_text(CONFIG)
    (folder / "other").write_text("another-token-of-another-gateway")
    (folder / "other").chmod(0o600)
    gateway = start("gateway", "run")
    found = re.search(LISTENS, gateway.wait_for(LISTENS))
    assert found is not None
    assert (folder / "token").stat().st_mode & 0o777 == 0o600

    done = evertick(folder, "gateway", "check", found[1], "--token-file", "token", "-o", "json")
    assert done.code == 0, done.out
    checks = json.loads(done.out)
    assert {each["result"] for each in checks} == {"passed", "left out"}
    assert [each["detail"] for each in checks if each["result"] == "left out"] == [
        "all crons of this gateway are managed"
    ]
    wrong = evertick(folder, "gateway", "check", found[1], "--token-file", "other", "-o", "json")
    assert wrong.code == 8
    assert "failed" in {each["result"] for each in json.loads(wrong.out)}
    second = evertick(folder, "gateway", "run")
    assert second.code == 7 and "gateway.db" in second.err

    gateway.send(signal.SIGTERM)
    assert gateway.end() == 0
    assert "Traceback" not in gateway.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "this is not TOML"),
        ("nam = 'x'", "name: field required"),
        ("name = 'x'\nlisten = '4500'", "listen: "),
        ("name = 'x'\n[commands.a]\nargv = []", "commands.a.argv"),
        ("name = 'x'\n[commands.a]\nargv = ['x']\narguments = {zone = ['eu']}", "the argument zone is not in argv"),
        ("name = 'x'\n[crons.a]\nschedule = {type = 'cron'}\naction = {type = 'agent'}", "crons.a.schedule"),
        (
            "name = 'x'\n[crons.a]\nschedule = {type = 'cron', expression = '0 9 * * *'}\n"
            "action = {type = 'command', name = 'none'}",
            "no command 'none'",
        ),
        (
            "name = 'x'\n[crons.a]\nschedule = {type = 'cron', expression = '99 9 * * *'}\n"
            "action = {type = 'builtin', name = 'health_probe'}",
            "schedule: ",
        ),
        ("name = 'x'\n[platform]\nurl = 'https://p.example'\nmode = 'pull'", "needs public_url"),
        ("name = 'x'\n[platform]\nurl = 'p.example'", "is no address"),
        ("name = 'x'\n[http]\nhosts = ['http://a.example']", "is not a host"),
        ("name = 'x'\ntoken_file = 'gateway.toml'", "chmod 600"),
    ],
)
def test_a_configuration_that_cannot_work_is_named(folder: Path, text: str, words: str) -> None:
    (folder / "gateway.toml").write_text(text)
    (folder / "gateway.toml").chmod(0o644)
    done = evertick(folder, "gateway", "run")
    assert done.code == 2 and words in done.err, done.err
