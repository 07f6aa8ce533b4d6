"""`evertick gateway list`, `cron add` and the others, on a database and with a gateway that runs."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from evertick import App
from evertick.api.gateway_fleet import Registration
from evertick.app.gateways.connections import KEY_VARIABLE
from evertick.gateway.link import Registration as Registered
from tests.cli.programs import evertick
from tests.gateway.served import serving
from tests.server.serving import serving as serving_platform
from tools.json_forms import OF_GATEWAYS

KEY = "a key of the platform, for tests alone"
GREET = '[commands.greet]\nargv = ["echo", "hello"]\n'

Run = Callable[..., Any]


@pytest.mark.processes
@pytest.mark.parametrize("place", ["database", "server"])
def test_every_command_of_gateways_prints_what_is_described(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    (folder / "gateway").mkdir()
    url = f"sqlite:///{folder}/shop.db"
    app = App("shop", database_url=url)
    app.migrate()
    app.open()
    printed: dict[str, Any] = {}
    environment: dict[str, Any] = {"EVERTICK_DATABASE_URL": url, KEY_VARIABLE: KEY}
    options: list[str] = []

    def run(command: str, *words: str) -> Any:
        """What a command prints as JSON."""
        done = evertick(folder, *command.split(), *words, "-o", "json", *options, **environment)
        assert done.code == 0, done.err
        printed[command] = json.loads(done.out)
        return printed[command]

    with ExitStack() as stack:
        if place == "server":
            options += ["--url", stack.enter_context(serving_platform(app))]
            environment = {"EVERTICK_TOKEN": app.tokens.create("root", scope="admin").secret}
        gateway = stack.enter_context(serving(folder / "gateway", GREET))
        token = run("gateway join-token", "edge-1")["token"]
        said = Registration(join_token=token, name="edge-1", instance_id="i", url=gateway.url)
        made = app.gateways.joining.register(said)
        gateway.state.registered(Registered("p", made.gateway_id, made.secret), made.access_token)
        assert run("gateway get", "edge-1", "--now")["health"] == "healthy"
        assert [each["name"] for each in run("gateway list")] == ["edge-1"]
        cron = run("gateway cron add", "edge-1", "hi", "--every", "1h", "--command", "greet")
        zone = ("--cron", "0 3 * * *", "--zone", "Europe/Berlin")
        run("gateway cron update", "edge-1", "hi", *zone)
        moved = run("gateway cron update", "edge-1", "hi", "--cron", "0 4 * * *")
        assert (moved["schedule"]["expression"], moved["schedule"]["timezone"]) == ("0 4 * * *", "Europe/Berlin")
        moved = run("gateway cron update", "edge-1", "hi", "--zone", "Europe/Paris")
        assert (moved["schedule"]["expression"], moved["schedule"]["timezone"]) == ("0 4 * * *", "Europe/Paris")
        moved = run("gateway cron update", "edge-1", "hi", "--every", "1h", "--input", "{}")
        assert (moved["schedule"]["type"], moved["action"]["name"]) == ("interval", "greet")
        cron = run("gateway cron update", "edge-1", "hi", "--name", "hi")
        run("gateway cron update", "edge-1", "hi", "--disable", "--if-revision", cron["revision"])
        [line] = run("gateway cron list")
        assert (line["key"], line["status"], line["schedule"]) == ("hi", "disabled", "every 3600 s")
        run("gateway cron get", "edge-1", "hi")
        run_id = run("gateway cron run", "edge-1", "hi")["run_id"]
        [found] = run("gateway cron runs", "edge-1", "hi", "--run", run_id)
        assert found["trigger"] == "manual"
        run("gateway cron remove", "edge-1", cron["id"])
        assert run("gateway rotate", "edge-1")["name"] == "edge-1"
        run("gateway remove", "edge-1")
    app.close()

    assert printed.keys() == OF_GATEWAYS.keys()
    for command, [form] in OF_GATEWAYS.items():
        for each in printed[command] if form.many else [printed[command]]:
            assert form.schema.model_validate(each).to_json() == each, command


def test_what_does_not_fit_together_is_refused(folder: Path) -> None:
    App("shop", database_url=f"sqlite:///{folder}/shop.db").migrate()
    for words, says in (
        (("k", "--builtin", "b"), "say when it runs"),
        (("k", "--every", "1h"), "say what it does"),
        (("k", "--every", "1h", "--zone", "UTC", "--builtin", "b"), "--zone goes with"),
        (("k", "--every", "1h", "--builtin", "b", "--arguments", "{}"), "--arguments goes with"),
        (("k", "--every", "1h", "--builtin", "b", "--command", "c"), "exclude each other"),
        (("k", "--every", "1h", "--body", "b"), "go with --http"),
        (("k", "--every", "1h", "--command", "c", "--arguments", "[1]"), "object of texts"),
    ):
        done = evertick(
            folder, "gateway", "cron", "add", "none", *words, EVERTICK_DATABASE_URL=f"sqlite:///{folder}/shop.db"
        )
        assert done.code == 2, done.err
        assert says in done.err
