"""Real gateways on ports of this machine, served in a thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evertick.gateway.link import read_secret
from evertick.gateway.process import GatewayProcess, gateway_of
from tests.gateway.conftest import write_config

PATIENCE_S = 60.0

CONFIG = """
name = "edge-1"
database = "gateway.db"
listen = "{listen}"
token_file = "token"
"""


@contextmanager
def serving(folder: Path, more: str = "", *, listen: str = "127.0.0.1:0") -> Iterator[GatewayProcess]:
    """A gateway that runs, with a configuration in a folder."""
    gateway = gateway_of(write_config(folder, CONFIG.format(listen=listen) + more))
    thread = threading.Thread(target=lambda: asyncio.run(gateway.run()), daemon=True)
    thread.start()
    try:
        assert gateway.is_ready.wait(PATIENCE_S), "the gateway does not start"
        yield gateway
    finally:
        gateway.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the gateway does not end"


def token_of(folder: Path) -> str:
    """The token of local callers."""
    found = read_secret(folder / "token")
    assert found is not None
    return found.strip()
