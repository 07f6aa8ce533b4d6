"""`evertick serve`: a real process, reached over the network."""

import json
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.desk import SEED_LINES, Command
from tests.cli.programs import COMMAND, DEADLINE_S, Program, Start, admin_token, environment, evertick

pytestmark = pytest.mark.processes

SERVES = r"serves chat at (http\S+)"


def address_of(program: Program) -> str:
    """Where a server listens."""
    found = re.search(SERVES, program.wait_for(SERVES))
    assert found is not None
    return found[1]


def ask(url: str, secret: str | None = None, body: Any = None) -> tuple[int, Any]:
    """The status and the JSON of a reply."""
    headers = {"Content-Type": "application/json"} | ({} if secret is None else {"Authorization": f"Bearer {secret}"})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.long
def test_full_collections_pass_by_the_program_of_a_server(folder: Path, start: Start) -> None:
    """Each of them was a pause of a tenth of a second, in which no request was replied to."""
    with (folder / "app.py").open("a") as code:
        code.write("\n\n@app.query\ndef frozen(ctx):\n    import gc\n\n    return gc.get_freeze_count()\n")
    server = start("serve", "--port", "0")
    address = address_of(server)
    secret = admin_token(folder)

    status, reply = ask(f"{address}/api/v1/tenants/default/functions/app.frozen/call", secret, {"args": {}})

    assert (status, reply > 10_000) == (200, True), reply


def test_it_serves_runs_jobs_and_ends_cleanly(folder: Path, start: Start) -> None:
    server = start("serve", "--port", "0", "--worker")
    address = address_of(server)
    secret = admin_token(folder)
    home = f"{address}/api/v1/tenants/default"

    assert ask(f"{address}/health") == (200, {"ok": True})
    assert ask(f"{home}/jobs")[0] == 401
    status, made = ask(f"{home}/jobs", secret, {"function": "app.fail", "args": {}})
    assert status == 201
    server.wait_for("app.fail")
    status, job = ask(f"{home}/jobs/{made['id']}", secret)
    assert (status, job["state"]) == (200, "failed")

    server.send(signal.SIGTERM)
    assert server.end() == 0
    assert "Traceback" not in server.text


@pytest.mark.long
def test_lines_of_other_schedulers_work_against_a_server(
    folder: Path, start: Start, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are unchanged: a profile in the environment says where they go."""
    with (folder / "app.py").open("a") as file:
        file.write('\n\n@app.action(name="MyWorkflowType", pool=app.pool("my-task-queue"))\n')
        file.write("async def my_workflow(ctx) -> None: ...\n")
    server = start("serve", "--port", "0")
    url, secret = address_of(server), admin_token(folder, "first start")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "config" / "evertick").mkdir(parents=True)
    (folder / "config" / "evertick" / "profiles.toml").write_text(f'[seed]\nurl = "{url}"\n')
    monkeypatch.setenv("EVERTICK_TOKEN", secret)
    monkeypatch.setenv("EVERTICK_PROFILE", "seed")

    ends = [command(*line) for line in SEED_LINES]

    assert [done.code for done in ends] == [0] * len(SEED_LINES), [done.err for done in ends]
    database = ("--db", "sqlite:///.evertick/chat.db")
    history = command("schedule", "history", "my-schedule-id", "-o", "json", *database).json
    assert [line["action"] for line in history] == [
        "deleted", "updated", "backfilled", "triggered", "triggered", "resumed", "paused", "created",
    ]  # fmt: skip
    assert {line["actor"] for line in history} == {"token first start"}
    assert command("schedule", "history", "my-schedule-id", "-o", "json").json == history


@pytest.mark.long
def test_a_service_writes_no_secret_into_its_log_and_says_how_to_make_one(folder: Path, start: Start) -> None:
    server = start("serve", "--port", "0")
    address = address_of(server)

    assert (
        "no token of all tenants yet; make one at a terminal: evertick token create NAME --scope admin" in server.text
    )
    assert "evt_" not in server.text
    assert json.loads(evertick(folder, "token", "list", "-o", "json").out) == []
    assert ask(f"{address}/api/v1/workers", admin_token(folder))[0] == 200


@pytest.mark.long
def test_the_first_token_is_shown_at_a_terminal_on_the_first_start_alone(folder: Path) -> None:
    assert "evt_" in at_a_terminal(folder)
    assert "evt_" not in at_a_terminal(folder)


def at_a_terminal(folder: Path) -> str:
    """What a server that is started at a terminal writes until it serves."""
    ours, theirs = pty.openpty()
    server = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"], cwd=folder, env=environment(), stdout=theirs, stderr=theirs,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    try:
        while not re.search(SERVES.encode(), written):
            written += os.read(ours, 10_000)
    finally:
        server.kill()
        server.wait()
        os.close(ours)
    return written.decode()


@pytest.mark.long
def test_it_ends_although_a_request_waits(folder: Path, start: Start) -> None:
    server = start("serve", "--port", "0")
    host, port = address_of(server).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /api/v1/tenants/default/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
        )
        server.send(signal.SIGTERM)
        assert server.end() == 0


@pytest.mark.long
def test_open_streams_are_told_of_changes_and_end_with_the_server(folder: Path, start: Start) -> None:
    server = start("serve", "--port", "0", "--worker")
    address = address_of(server)
    secret = admin_token(folder)
    home, headers = f"{address}/api/v1/tenants/default", {"Authorization": f"Bearer {secret}"}
    streams = [
        urllib.request.urlopen(urllib.request.Request(f"{home}/events", headers=headers), timeout=30) for _ in range(5)
    ]
    assert [stream.readline() for stream in streams] == [b"event: ready\n"] * 5
    assert ask(f"{address}/ready") == (200, {"ok": True})

    ask(f"{home}/jobs", secret, {"function": "app.fail", "args": {}})
    for stream in streams:
        assert next(line for line in stream if line == b"event: jobs\n")

    server.send(signal.SIGTERM)
    assert server.end() == 0
    for stream in streams:
        stream.read()  # to its end
        stream.close()
    assert "Traceback" not in server.text


@pytest.mark.long
def test_a_connection_without_a_request_is_closed(folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "app.py").write_text(
        (folder / "app.py").read_text() + "\nimport evertick.server.process as p\np.HEAD_S = 0.2\n"
    )
    host, port = address_of(start("serve", "--port", "0")).removeprefix("http://").split(":")
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: local", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(sent)
            read = b""
            while part := connection.recv(4_096):
                read += part
            assert read.startswith(b"HTTP/1.1 200") == (b"/health" in sent)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--host", "0.0.0.0"), 2, "tokens would travel in the clear"),
        (("--host", "example.org"), 2, "tokens would travel in the clear"),
        (("--tls-key", "app.py"), 2, "go together"),
        (
            ("--tls-key", "app.py", "--tls-certificate", "app.py"),
            2,
            "a private key without a passphrase, both in PEM form",
        ),
        (("--port", "99999"), 2, "99999"),
        (("--host", "127.0.0.99.1", "--behind-proxy"), 2, "cannot listen"),
        (("nowhere.py",), 2, "there is no file nowhere.py"),
    ],
)
def test_what_cannot_be_served_is_refused(folder: Path, words: tuple[str, ...], code: int, says: str) -> None:
    done = evertick(folder, "serve", *words)
    assert done.code == code, done.err
    assert says in done.err


def test_a_port_in_use_is_refused(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = evertick(folder, "serve", "--port", str(port))
    assert done.code == 2
    assert done.err == f"error: cannot listen at 127.0.0.1:{port}: Address already in use; choose another port\n"


@pytest.mark.long
def test_it_listens_for_others_behind_a_proxy(folder: Path, start: Start) -> None:
    server = start("serve", "--host", "0.0.0.0", "--port", "0", "--behind-proxy", "--allow-host", "api.example.org")
    port = address_of(server).rpartition(":")[2]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/health", headers={"Host": "api.example.org"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 200


@pytest.mark.long
def test_a_disk_that_takes_no_more_is_told_and_forgotten_when_it_does(folder: Path, start: Start) -> None:
    """A limit on the size of files stands for the disk. It strikes the engine's process, and not who only looks."""
    server = start("serve", "--port", "0", "--worker")
    address = address_of(server)
    secret = admin_token(folder)

    def until(status: int) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while (reply := ask(f"{address}/ready"))[0] != status:
            assert time.monotonic() < deadline, reply
            time.sleep(0.1)
        found: dict[str, Any] = reply[1]
        return found

    assert until(200) == {"ok": True}  # its worker has a lease
    [log] = folder.glob(".evertick/*.db-wal")
    whole = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, whole[1]))

    assert re.search(r"cannot be written since 20\S+Z: its disk is full or fails", until(503)["detail"])
    assert ask(f"{address}/api/v1/status", secret)[1]["unwritable"]["reason"] == "its disk is full or fails"
    checks = [each["check"] for each in ask(f"{address}/api/v1/doctor", secret)[1]["findings"]]
    assert "writes" in checks
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, whole)
    assert until(200) == {"ok": True}


CLOSES = """
import os
from evertick import App, SyncActionCtx

app = App("chat")


@app.action(name="app.close")
def close(ctx: SyncActionCtx, first: int) -> None:
    for descriptor in range(first, 20):
        try:
            os.close(descriptor)
        except OSError:
            pass
"""


@pytest.mark.long
@pytest.mark.parametrize("command", [("serve", "--port", "0", "--worker"), ("worker",)])
def test_a_process_whose_descriptors_a_function_has_closed_ends(
    folder: Path, start: Start, command: tuple[str, ...]
) -> None:
    """Its supervisor starts it again, where it had neither worked nor ended."""
    (folder / "app.py").write_text(CLOSES)
    process = start(*command)
    process.wait_for("serves chat" if command[0] == "serve" else "runs the jobs of chat")

    assert evertick(folder, "run", "app.close", "first=3", "--after", "0s").code == 0

    assert process.end() == 1
    assert "error: a function has closed descriptors that it did not open" in process.text
