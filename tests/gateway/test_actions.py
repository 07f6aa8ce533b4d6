"""What crons of a gateway do: requests to listed hosts, and commands of the configuration."""

import asyncio
import http.server
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evertick.api.gateways import OUTPUT_BYTES_MAX, GatewayAction, cut_output
from evertick.gateway.actions import ActionFailed, Actions, purge
from evertick.gateway.config import read_config
from tests.gateway.conftest import write_config

CONFIG = """
name = "edge-1"

[http]
hosts = ["api.test", "*.example.test"]
private_hosts = ["127.0.0.1:{port}"]

[commands.greet]
argv = ["sh", "-c", "echo hello; echo $SECRET; pwd; exit $CODE", "{{zone}}"]
env = {{ SECRET = "s", CODE = "3" }}
cwd = "work"
arguments = {{ zone = ["eu", "us"] }}

[commands.echo]
argv = ["echo", "{{what}}"]
arguments = {{ what = ["$(id)", "; id"] }}

[commands.slow]
argv = ["sh", "-c", "echo begun; sleep 60 & echo $! > child; wait"]
timeout_s = 2

[commands.loud]
argv = ["python3", "-c", "print('\\u00e9' * 300000)"]

[commands.none]
argv = ["no-such-program"]
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/far":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/")
        else:
            self.send_response(404 if self.path == "/none" else 200)
        self.end_headers()
        self.wfile.write(f"{self.headers['Host']} {self.path}".encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Content-Type"].encode() + b" " + body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def port() -> Iterator[int]:
    """A server on a port of this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def actions(tmp_path: Path, port: int) -> Actions:
    """Actions of a configuration."""
    (tmp_path / "work").mkdir()
    return Actions(read_config(write_config(tmp_path, CONFIG.format(port=port))), {})


def do(actions: Actions, **action: Any) -> str:
    """The output of an action."""
    return asyncio.run(actions.perform(GatewayAction(**action)))


def failed(actions: Actions, **action: Any) -> dict[str, str]:
    """Why an action failed, and its output."""
    with pytest.raises(ActionFailed) as caught:
        do(actions, **action)
    found: dict[str, str] = caught.value.data
    return found


def test_a_listed_private_host_is_asked(actions: Actions, port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    assert do(actions, type="http", url=f"{url}/a?b=1") == f"127.0.0.1:{port} /a?b=1"
    assert do(actions, type="http", method="POST", url=url, body='{"a": 1}') == 'application/json {"a": 1}'
    assert do(actions, type="http", method="POST", url=url, body="a") == "text/plain; charset=utf-8 a"
    assert failed(actions, type="http", url=f"{url}/none")["message"] == "status 404"


def test_redirects_are_not_followed(actions: Actions, port: int) -> None:
    found = failed(actions, type="http", url=f"http://127.0.0.1:{port}/far")
    assert found["message"] == "status 302: it redirects to http://127.0.0.1:1/, which is not followed"


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_a_listed_name_whose_address_is_not_public_is_refused(
    actions: Actions, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Also if only one of several addresses is not: which of them is taken is not the caller's choice."""
    good = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [good, (*good[:4], (address, 80))])
    assert "not on the public internet" in failed(actions, type="http", url="http://api.test/")["message"]


def test_a_name_that_changes_its_address_after_the_check_changes_nothing(
    actions: Actions, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """The address that was checked is the one that is connected to: the name is resolved once."""
    asked: list[str] = []
    connected: list[Any] = []

    def resolve(host: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        address = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))]

    def connect(address: Any, **_: Any) -> socket.socket:
        connected.append(address)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    assert "could not be reached" in failed(actions, type="http", url="http://api.test/")["message"]
    assert (asked, connected) == (["api.test"], [("93.184.216.34", 80)])


def test_a_command_has_its_own_environment_and_no_shell_of_the_callers(actions: Actions, tmp_path: Path) -> None:
    found = failed(actions, type="command", name="greet", arguments={"zone": "eu"})
    assert found == {"message": "the command greet ended with code 3", "output": f"hello\ns\n{tmp_path / 'work'}\n"}
    assert do(actions, type="command", name="echo", arguments={"what": "$(id)"}) == "$(id)\n"
    assert "cannot be started" in failed(actions, type="command", name="none")["message"]
    assert actions.warnings() == ("the program of the command none does not exist: no-such-program",)


def test_a_command_that_takes_too_long_is_ended_with_its_children(actions: Actions, tmp_path: Path) -> None:
    found = failed(actions, type="command", name="slow")
    assert found == {"message": "it took longer than 2 s, and was ended", "output": "begun\n"}
    child = int((tmp_path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(1_000):  # its new parent collects it
            os.kill(child, signal.SIG_DFL)
            time.sleep(0.01)


def test_output_is_bounded_in_bytes(actions: Actions) -> None:
    output = do(actions, type="command", name="loud")
    assert OUTPUT_BYTES_MAX - 10 < len(output.encode()) <= OUTPUT_BYTES_MAX
    assert len(cut_output(b"\xff" * 100_000).encode()) <= OUTPUT_BYTES_MAX
    assert cut_output(b"x" * 70_000 + b"the end").endswith("xthe end")
    assert cut_output(b"x" * 70_000).startswith("[the beginning is cut]\nxxx")
    assert cut_output(b"a\0b") == "a\N{REPLACEMENT CHARACTER}b"
    assert len(str(ActionFailed("m", '"' * 65_536).data)) < 65_536


def test_what_the_configuration_does_not_list_any_more_fails(actions: Actions) -> None:
    actions.config = actions.config.model_copy(update={"commands": {}})
    found = failed(actions, type="command", name="echo", arguments={"what": "; id"})
    assert "does not allow it any more" in found["message"]


def test_a_purge_does_not_follow_links(tmp_path: Path) -> None:
    outside, cache = tmp_path / "outside", tmp_path / "cache"
    for folder in (outside, cache / "deep"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("12345")
    (cache / "link").symlink_to(outside)
    assert purge(cache).startswith("removed 2 files")
    assert [*cache.iterdir()] == [] and (outside / "file").exists()
    assert purge(tmp_path / "none") == "removed 0 files, 0 bytes"
