"""A real OpenClaw gateway: installed from npm in a folder, started, driven through the whole contract, and stopped.

    make e2e-openclaw                       installs 800 MB, takes some minutes
    make e2e-openclaw ARGS='--folder DIR'   keeps what is installed in DIR, and uses it again

Needs npm and the network. It prints a line for each step, and ends with 1 if one fails.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from evertick.api.gateways import GatewayCronChange, GatewayRun, NewGatewayCron
from evertick.base.clock import SystemClock
from evertick.base.errors import (
    EvertickError,
    GatewayUnreachable,
    IntervalTooShort,
    InvalidCron,
    NotManaged,
    RevisionConflict,
    UnknownCommand,
)
from evertick.gateway.conformance import check_gateway
from evertick.gateway.openclaw_connection import Connection, Credentials
from evertick.gateway_client import GatewayClient, HttpSend

NODE, OPENCLAW = "node@24", "openclaw@2026.9.6"
TOKEN: Final = "the-token-of-this-trial"
PATIENCE_S: Final = 180.0
"""For a start on a busy machine."""
HOURLY = {"type": "interval", "every_ms": 3_600_000}

CONFIG = """
name = "claw"
listen = "127.0.0.1:0"
token_file = "token"

[openclaw]
url = "{url}"
token_file = "openclaw-token"

[commands.echo]
argv = ["sh", "-c", "echo hello from $WHO; echo err >&2"]
env = {{ WHO = "openclaw" }}

[commands.fail]
argv = ["sh", "-c", "echo failing; exit 3"]

[commands.long]
argv = ["sleep", "60"]
"""


def step(name: str, work: Callable[[], Any]) -> Any:
    """Do something and print how long it took, and what it returned if that is a text."""
    begin = time.monotonic()
    found = work()
    words = f": {found}" if isinstance(found, str) else ""
    print(f"  ok  {1000 * (time.monotonic() - begin):7.0f} ms  {name}{words}", flush=True)
    return found


def need(is_so: bool, words: str) -> None:
    """End with a failure unless something is so."""
    if not is_so:
        raise SystemExit(f"FAILED: {words}")


def until(name: str, find: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """What `find` returns as soon as it is true."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        with contextlib.suppress(GatewayUnreachable, OSError):
            if found := find():
                return found
        time.sleep(0.2)
    raise SystemExit(f"FAILED: not within {patience_s:.0f} s: {name}")


def free_port() -> int:
    """A port of this machine that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


# -- OpenClaw


def install(folder: Path) -> None:
    """Install node and OpenClaw, unless they are there."""
    if (folder / "node_modules/openclaw/openclaw.mjs").exists() and node_in(folder):
        return
    npm = shutil.which("npm")
    need(npm is not None, "npm is missing; Debian: apt-get install npm")
    (folder / "package.json").write_text("{}")
    with (folder / "install.log").open("wb") as log:
        for where, command in (
            (folder, [str(npm), "install", "--ignore-scripts", "--no-audit", NODE, OPENCLAW]),
            # The package `node` fetches the program for this machine in a script, which was left out above.
            (folder / "node_modules/node", ["node", "installArchSpecificPackage"]),
        ):
            done = subprocess.run(command, cwd=where, stdout=log, stderr=log, check=False)
            need(done.returncode == 0, f"{' '.join(command)}; see {folder}/install.log")
    need(node_in(folder) is not None, f"{NODE} has no program for this machine")


def node_in(folder: Path) -> Path | None:
    """The program node that was installed."""
    return next(iter(folder.glob("node_modules/**/node-*/bin/node")), None)


class OpenClaw:
    """The process of OpenClaw, with a state of its own."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder, self.state, self.port = folder, state, free_port()
        self.url = f"ws://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        (state / "home").mkdir()
        config = {
            "gateway": {
                "mode": "local", "bind": "loopback", "port": self.port, "auth": {"mode": "token", "token": TOKEN},
                "controlUi": {"enabled": False}, "trustedProxies": ["127.0.0.1"],
            },
            "cron": {"enabled": True},
            "discovery": {"mdns": {"mode": "off"}},
        }  # fmt: skip
        (state / "openclaw.json").write_text(json.dumps(config))

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        home = self.state / "home"
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "OPENCLAW_STATE_DIR": str(self.state),
            "OPENCLAW_CONFIG_PATH": str(self.state / "openclaw.json"), "OPENCLAW_SKIP_CHANNELS": "1",
            "OPENCLAW_DISABLE_BONJOUR": "1", "OPENCLAW_NO_RESPAWN": "1", "OPENCLAW_EXEC_SHELL_SNAPSHOT": "0",
            "OPENCLAW_TELEMETRY_ENDPOINT": "http://127.0.0.1:9/",
        }  # fmt: skip
        command = [node_in(self.folder), self.folder / "node_modules/openclaw/openclaw.mjs", "gateway", "run"]
        with (self.state / "openclaw.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*map(str, command), "--port", str(self.port), "--bind", "loopback"],
                env=environment, cwd=home, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until("OpenClaw is ready", self._is_ready)

    def _is_ready(self) -> bool:
        assert self._process is not None
        need(self._process.poll() is None, f"OpenClaw has ended; see {self.state}/openclaw.log")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5) as reply:
            return bool(reply.status == 200)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it and its own processes."""
        if self._process is not None:
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)
            self._process = None


# -- our gateway


@dataclass(frozen=True)
class Gateway:
    """`evertick gateway run` in front of OpenClaw, and clients of it."""

    url: str
    send: HttpSend
    client: GatewayClient

    def check(self) -> str:
        """The conformance checks."""
        with HttpSend(self.url) as without_token, HttpSend(self.url, "wrong") as wrong:
            found = check_gateway(self.send, send_without_token=without_token, send_with_wrong_token=wrong)
        for each in found:
            print(f"      {each.result:9} {each.check} {each.detail or ''}".rstrip(), flush=True)
        need(all(each.result == "passed" for each in found), "a check of the contract")
        return f"{len(found)} checks passed"

    def ended(self, run_id: str) -> GatewayRun:
        """A run after its end."""

        def find() -> GatewayRun | None:
            run = self.client.run_of(run_id)
            return None if run.status == "running" else run

        run: GatewayRun = until(f"{run_id} ends", find)
        return run


@contextlib.contextmanager
def gateway_in(folder: Path, url: str) -> Iterator[Gateway]:
    """A gateway that runs in a process of its own."""
    secret, log = folder / "openclaw-token", folder / "gateway.log"
    secret.touch(0o600)
    secret.write_text(TOKEN)
    (folder / "gateway.toml").write_text(CONFIG.format(url=url))
    log.write_text("")
    command = [sys.executable, "-m", "evertick.cli.main", "gateway", "run", "--config", "gateway.toml"]
    with log.open("ab") as out, subprocess.Popen(command, cwd=folder, stdout=out, stderr=out) as process:
        try:
            words = until("the gateway listens", lambda: "listens at http" in log.read_text() and log.read_text())
            address = words.rpartition("listens at ")[2].split()[0]
            with HttpSend(address, (folder / "token").read_text().strip()) as send:
                yield Gateway(address, send, GatewayClient(send))
        finally:
            process.terminate()


def new(key: str, schedule: dict[str, Any], command: str = "echo", **more: Any) -> NewGatewayCron:
    """A cron that runs a command."""
    action = {"type": "command", "name": command}
    return NewGatewayCron.model_validate({"key": key, "schedule": schedule, "action": action, **more})


# -- the steps


def bad_input(gateway: Gateway) -> str:
    """Each is refused with its own error, and nothing of it is kept."""
    before = {each.id for each in gateway.client.crons().crons}
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    zone = {"type": "cron", "expression": "0 9 * * *", "timezone": "Mars/Base"}
    for schedule, command, kind in (
        ({"type": "cron", "expression": "99 9 * * *"}, "echo", InvalidCron),
        ({"type": "cron", "expression": "0 0 30 2 *"}, "echo", InvalidCron),
        ({"type": "cron", "expression": "* * * * * *"}, "echo", InvalidCron),
        (zone, "echo", InvalidCron),
        ({"type": "once", "at": past}, "echo", InvalidCron),
        ({"type": "interval", "every_ms": 1}, "echo", IntervalTooShort),
        ({"type": "rrule", "rrule": "DTSTART:20300101T000000Z\nRRULE:FREQ=DAILY"}, "echo", InvalidCron),
        (HOURLY, "rm", UnknownCommand),
    ):
        refused(kind, lambda s=schedule, c=command: gateway.client.add(new("bad", s, c)))
    need({each.id for each in gateway.client.crons().crons} == before, "something of a refused cron was kept")
    return "8 refused"


def refused(kind: type[EvertickError], call: Callable[[], object]) -> None:
    """Do something that must fail with an error of that kind."""
    try:
        call()
    except kind as error:
        print(f"      {error.code}: {error}", flush=True)
        return
    raise SystemExit(f"FAILED: it was done, and should be {kind.__name__}")


def foreign(gateway: Gateway) -> str:
    """OpenClaw's own crons are shown, and read-only."""
    system = [each for each in gateway.client.crons().crons if each.system]
    need(len(system) >= 2, "OpenClaw's own crons are missing")
    for each in system:
        refused(NotManaged, lambda each=each: gateway.client.remove(each.id))
        refused(NotManaged, lambda each=each: gateway.client.run(each.id, key=each.id))
    return ", ".join(each.name for each in system)


def life_of_a_cron(gateway: Gateway) -> str:
    """Declared, declared again, changed, fenced, run, removed."""
    cron, is_new = gateway.client.add(new("life", HOURLY, enabled=False))
    again, is_newer = gateway.client.add(new("life", {"type": "cron", "expression": "30 8 1 * *"}))
    need(is_new and not is_newer and again.id == cron.id and not again.enabled, "the key does not declare it again")
    changed = gateway.client.change(
        cron.id,
        GatewayCronChange.model_validate({"action": {"type": "command", "name": "fail"}}),
        revision=again.revision,
    )
    refused(
        RevisionConflict, lambda: gateway.client.change(cron.id, GatewayCronChange(name="x"), revision=cron.revision)
    )
    run = gateway.ended(gateway.client.run(cron.id, key="life"))
    need(run.status == "failed" and "failing" in (run.output or ""), f"the run is {run}")
    gateway.client.remove(cron.id, revision=changed.revision)
    return f"{run.status}, {run.error}, output {run.output!r}, {run.duration_ms} ms"


def command(gateway: Gateway) -> str:
    """A command without a cron: output of both streams, and no job is left."""
    before = len(gateway.client.crons().crons)
    run_id = gateway.client.run_command("echo", key="command")
    run = gateway.ended(run_id)
    need(run.status == "succeeded" and "hello from openclaw" in (run.output or ""), f"the run is {run}")
    need(gateway.client.run_command("echo", key="command") == run_id, "the same key is another run")
    need(len(gateway.client.crons().crons) == before, "the list shows the job of a command")
    return repr(run.output)


def one_shot(gateway: Gateway) -> str:
    """A cron that runs once, by its own schedule."""
    at = datetime.now(UTC) + timedelta(seconds=2)
    cron, _ = gateway.client.add(new("once", {"type": "once", "at": at.isoformat()}))
    [run] = until("the one-shot runs", lambda: gateway.client.runs(cron.id))
    need(run.trigger == "schedule" and run.status == "succeeded", f"the run is {run}")
    need(gateway.client.run_of(run.run_id) == run, "the run is not found by its id")
    return f"{(run.started_at - at).total_seconds() * 1000:.0f} ms late"


def events(gateway: Gateway) -> str:
    """The stream of events says what happens to a cron."""
    with gateway.send.http.stream("GET", "/v1/events", timeout=60) as reply:
        lines = reply.iter_lines()
        need(next(lines) == "event: ready", "the stream does not begin with ready")
        cron, _ = gateway.client.add(new("events", HOURLY))
        run_id = gateway.client.run(cron.id, key="events")
        gateway.ended(run_id)
        gateway.client.remove(cron.id)
        found = []
        while "cron.removed" not in found:
            line = next(lines)
            found += [line.removeprefix("event: ")] if line.startswith("event: ") else []
            if line.startswith("data: {"):
                need(json.loads(line[6:]).get("cron_id") in (cron.id, None), f"an event of another cron: {line}")
    need(found == ["cron.added", "run.started", "run.finished", "cron.removed"], f"the events are {found}")
    return ", ".join(found)


def outage(gateway: Gateway, openclaw: OpenClaw) -> str:
    """OpenClaw is killed during a run; a one-shot and a time of a cron fall into the outage."""
    kept, _ = gateway.client.add(new("kept", HOURLY))
    cut, _ = gateway.client.add(new("cut", HOURLY, "long"))
    run_id = gateway.client.run(cut.id, key="cut")
    at = datetime.now(UTC) + timedelta(seconds=3)
    missed, _ = gateway.client.add(new("missed", {"type": "once", "at": at.isoformat()}))
    tick, _ = gateway.client.add(new("tick", {"type": "cron", "expression": "* * * * *"}))
    first_at = tick.next_run_at
    assert first_at is not None
    before = {each.id: each.revision for each in gateway.client.crons().crons}
    openclaw.end(signal.SIGKILL)
    refused(GatewayUnreachable, gateway.client.health)
    refused(GatewayUnreachable, lambda: gateway.client.run(kept.id, key="during the outage"))
    until("a time of the cron is overdue", lambda: datetime.now(UTC) > first_at + timedelta(seconds=2))
    back_at = datetime.now(UTC)
    openclaw.start()
    until("the gateway is connected again", gateway.client.health)
    need({each.id: each.revision for each in gateway.client.crons().crons} == before, "the crons are others")
    until("the missed one-shot has run", lambda: gateway.client.runs(missed.id))
    need(len(gateway.client.runs(missed.id)) == 1, "the missed one-shot has run more than once")
    need(gateway.client.run(cut.id, key="cut") == run_id, "the key of the run that was cut is another run")
    cut_run = gateway.ended(run_id)
    need(cut_run.status in ("unknown", "failed"), f"the run that was cut is {cut_run}")
    need(gateway.ended(gateway.client.run(kept.id, key="during the outage")).status == "succeeded", "it does not run")
    until("the cron has run three times", lambda: len(gateway.client.runs(tick.id)) >= 3)
    times = [run.started_at for run in reversed(gateway.client.runs(tick.id)) if run.started_at]
    need(times[0] > back_at, "the cron ran during the outage")
    off_grid = [(each - first_at).total_seconds() % 60 for each in times[1:]]
    need(all(each < 5 for each in off_grid), f"the cron is {off_grid} s off its grid")
    for each in (kept, cut, missed, tick):
        gateway.client.remove(each.id)
    late = ", ".join(f"{each:.2f}" for each in off_grid)
    print(f"      the cron ran once for what it missed, then {late} s after times of its grid", flush=True)
    return f"missed ran once, the run that was cut is {cut_run.status} ({cut_run.error})"


def pairing(folder: Path, openclaw: OpenClaw) -> str:
    """A client that comes through a proxy needs a device that an operator has approved."""

    async def trial() -> str:
        proxy = await asyncio.start_server(_forwarded(openclaw.port), "127.0.0.1", 0)
        url = f"ws://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        token_file, key = folder / "openclaw-token", folder / "device.pem"
        operator = Connection(Credentials.read(openclaw.url, token_file, None), SystemClock(), lambda *_: None)
        device = Connection(Credentials.read(url, token_file, key), SystemClock(), lambda *_: None)
        words = ""
        try:
            await device.opened()
        except GatewayUnreachable as error:
            words = str(error)
        need("openclaw devices approve" in words, f"a new device is not told to be approved: {words}")
        await operator.call("device.pair.approve", {"requestId": words.split()[-1]})
        await device.call("cron.status", {})
        await device.close()
        token_file.write_text("not a token of OpenClaw")  # from now on the device's own token is used
        again = Connection(Credentials.read(url, token_file, key), SystemClock(), lambda *_: None)
        socket_ = await again.opened()
        need(not socket_.missing, f"the paired device lacks {socket_.missing}")
        for each in (again, operator):
            await each.close()
        proxy.close()
        return words

    return asyncio.run(trial())


def _forwarded(port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    """A proxy that says that its clients come from elsewhere."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", port)
        back.write(head[:-2] + b"X-Forwarded-For: 203.0.113.7\r\n\r\n")
        await asyncio.gather(pipe(reader, back), pipe(there, writer))

    return serve


def wrong_token(folder: Path, openclaw: OpenClaw) -> str:
    """It is named, and not shown."""
    file = folder / "wrong-token"
    file.touch(0o600)
    file.write_text("a-wrong-token")

    async def trial() -> str:
        connection = Connection(Credentials.read(openclaw.url, file, None), SystemClock(), lambda *_: None)
        try:
            await connection.opened()
        except GatewayUnreachable as error:
            need("a-wrong-token" not in str(error), "the token is shown")
            return str(error)
        raise SystemExit("FAILED: a wrong token was taken")

    return asyncio.run(trial())


def main() -> None:
    """Do all steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where to install, and to find what is installed")
    given = parser.parse_args().folder
    with contextlib.ExitStack() as closing:
        state = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="openclaw-state-")))
        folder = given or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="openclaw-")))
        folder = folder.resolve()
        folder.mkdir(exist_ok=True)
        step(f"{NODE} and {OPENCLAW} are installed", lambda: install(folder))
        openclaw = OpenClaw(folder, state)
        closing.callback(openclaw.end)
        step("OpenClaw is ready", openclaw.start)
        with gateway_in(state, openclaw.url) as gateway:
            health = until("the gateway is healthy", gateway.client.health)
            step("health", lambda: f"{health.status}, {health.runtime} {health.version}, {health.crons} crons")
            for name, work in (
                ("the contract", gateway.check),
                ("bad input", lambda: bad_input(gateway)),
                ("OpenClaw's own crons are read-only", lambda: foreign(gateway)),
                ("the life of a cron", lambda: life_of_a_cron(gateway)),
                ("a command without a cron", lambda: command(gateway)),
                ("a cron that runs once", lambda: one_shot(gateway)),
                ("events", lambda: events(gateway)),
                ("kill -9 of OpenClaw", lambda: outage(gateway, openclaw)),
                ("the contract, after the outage", gateway.check),
                ("a device is paired", lambda: pairing(state, openclaw)),
                ("a wrong token", lambda: wrong_token(state, openclaw)),
            ):
                step(name, work)
        step("OpenClaw is stopped", openclaw.end)


if __name__ == "__main__":
    main()
