"""A gateway and the real platform, each a server on a port of this machine."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evertick import App
from evertick.base.errors import AccessDenied, GatewayUnreachable, UnknownCommand
from evertick.gateway_client import GatewayClient, HttpSend
from tests.gateway.served import serving as serving_gateway
from tests.server.serving import serving

HOUR = {"type": "interval", "every_ms": 3_600_000}
GREET = {"type": "command", "name": "greet"}
MORE = """
[commands.greet]
argv = ["echo", "hello"]

[platform]
url = "{url}"
join_token_file = "join"
mode = "{mode}"
{address}
"""


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that happens soon."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("mode", ["dial_out", "pull"])
def test_a_gateway_is_used_from_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("EVERTICK_GATEWAY_KEY", "a key of the platform, for tests alone")
    app = App("platform", database_url=f"sqlite:///{tmp_path}/platform.db")
    gateways = app.gateways
    app.migrate()
    app.open()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "join").write_text(gateways.join_token("edge-1").token)
    (tmp_path / "join").chmod(0o600)
    own = f'public_url = "http://{address}"' if mode == "pull" else ""
    with serving(app) as url:
        more = MORE.format(url=url, mode=mode, address=own)
        with serving_gateway(tmp_path, more, listen=address) as gateway:
            until(lambda: [each.health for each in gateways.list()] == ["healthy"])
            cron = gateways.add_cron("edge-1", "a", schedule=HOUR, action=GREET)
            run_id = gateways.run_cron("edge-1", cron.id, key="k")
            until(lambda: gateways.runs("edge-1", cron.id, run_id=run_id)[0].status != "running")
            assert gateways.runs("edge-1", cron.id, run_id=run_id)[0].output == "hello\n"
            assert gateways.run_cron("edge-1", cron.id, key="k") == run_id
            assert [each.cron.id for each in gateways.crons("edge-1").crons if not each.removed_at] == [cron.id]
            with pytest.raises(UnknownCommand):
                gateways.add_cron("edge-1", "b", schedule=HOUR, action={"type": "command", "name": "sh"})

            before = gateway.state.registration
            assert before is not None
            rotation = gateways.add_cron(
                "edge-1", "r", schedule=HOUR, action={"type": "builtin", "name": "rotate_token"}
            )
            gateways.run_cron("edge-1", rotation.id)
            until(lambda: gateway.state.registration not in (None, before))
            gateways.remove_cron("edge-1", rotation.id)
            assert gateways.check("edge-1").health == "healthy"
            assert len(gateway.state.tokens) == (2 if mode == "pull" else 0)
            with HttpSend(gateway.url, before.secret) as send, pytest.raises(AccessDenied):
                GatewayClient(send).crons()

        until(lambda: gateways.get("edge-1").health == "offline")
        with pytest.raises(GatewayUnreachable, match="nothing is queued"):
            gateways.add_cron("edge-1", "b", schedule=HOUR, action=GREET)
        assert [each.cron.id for each in gateways.crons("edge-1").crons if not each.removed_at] == [cron.id]

        with serving_gateway(tmp_path, more, listen=address):
            until(lambda: gateways.get("edge-1").health == "healthy")
            assert gateways.runs("edge-1", cron.id)[0].run_id == run_id
    app.close()
