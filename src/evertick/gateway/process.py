"""The process `evertick gateway run`: a backend, its server, and the connection to the platform."""

import asyncio
import contextlib
import json
import logging
import secrets
import threading
import time
from pathlib import Path
from typing import Final

from evertick._version import __version__
from evertick.base.errors import Misuse
from evertick.gateway.actions import Actions, Builtin, purge
from evertick.gateway.app_backend import AppBackend, app_of
from evertick.gateway.backend import Backend
from evertick.gateway.config import GatewayConfig, read_config
from evertick.gateway.link import PlatformLink, State, local_token
from evertick.gateway.server import GatewayServer
from evertick.server.limits import LOOPBACK
from evertick.server.process import check_pair, listen, uvicorn_of

_logger: Final = logging.getLogger("evertick.gateway")


class GatewayProcess:
    """A gateway on the caller's event loop: its server, its backend and its connection to the platform."""

    def __init__(self, config: GatewayConfig, file: Path) -> None:
        """Raises Misuse if the address is in use, others may read a secret, or TLS files are unusable."""
        self.config = config
        self.is_ready = threading.Event()
        self.state = State(config.state_file, local_token(config.token_file))
        instance_id = f"gwi_{secrets.token_hex(12)}"
        builtins: dict[str, Builtin] = {"health_probe": self._probe, "refresh_capabilities": self._refresh}
        self._file = file
        self._actions = Actions(config, builtins)
        try:
            self.backend = _backend(config, self._actions, instance_id)
        except Misuse as error:
            raise Misuse(f"{file}: {error}") from None
        self._server = GatewayServer(self.backend, lambda token: self.state.is_token(token, time.time()))
        if config.tls_certificate is not None and config.tls_key is not None:
            check_pair(config.tls_certificate, config.tls_key)
        self._listening = listen(*config.address)
        tls = {"ssl_certfile": config.tls_certificate, "ssl_keyfile": config.tls_key}
        self._uvicorn = uvicorn_of(self._server, tls)
        if config.tls_certificate is None and config.address[0] not in LOOPBACK:
            _logger.warning(
                "%s can be reached from other machines, and tokens are sent unencrypted: set tls_certificate and "
                "tls_key, or use a proxy that terminates TLS", config.listen,
            )  # fmt: skip
        self._loop: asyncio.AbstractEventLoop | None = None
        self.link: PlatformLink | None = None
        if config.platform is not None:
            self.link = PlatformLink(
                config.platform,
                config.name,
                state=self.state,
                instance_id=instance_id,
                backend=self.backend,
                server=self._server,
            )
            builtins["rotate_token"] = self.link.rotate
        if (folder := config.cache_dir) is not None:
            builtins["purge_cache"] = lambda: asyncio.to_thread(purge, folder)

    @property
    def url(self) -> str:
        """The URL at which it listens."""
        host, port = self._listening.getsockname()[:2]
        scheme = "https" if self._uvicorn.config.is_ssl else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def run(self) -> None:
        """Run until `stop`."""
        self._loop = asyncio.get_running_loop()
        with contextlib.closing(self._listening):
            await self.backend.start()
            link = None if self.link is None else asyncio.create_task(self.link.run(), name="platform")
            _logger.info("evertick %s: the gateway %s listens at %s", __version__, self.config.name, self.url)
            self.is_ready.set()
            try:
                await self._uvicorn.serve(sockets=[self._listening])
            finally:
                if link is not None:
                    link.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await link
                await self.backend.stop()

    def stop(self) -> None:
        """Stop the gateway; any thread may call it."""
        self._uvicorn.should_exit = True

    # -- builtins

    async def _probe(self) -> str:
        """The health of the gateway, as JSON."""
        found = await self.backend.health()
        return json.dumps(found.to_json(), indent=2)

    async def _refresh(self) -> str:
        """Reload the commands and hosts of the configuration, and notify the platform."""
        config = await asyncio.to_thread(read_config, self._file)
        self._actions.config = self._actions.config.model_copy(
            update={"commands": config.commands, "http": config.http, "cache_dir": config.cache_dir}
        )
        report = "" if self.link is None else f"; {await self.link.refresh()}"
        return f"the commands and hosts of {self._file.name} are in force{report}"


def gateway_of(file: Path) -> GatewayProcess:
    """The gateway of a configuration file. Raises Misuse."""
    file = file.resolve()
    return GatewayProcess(read_config(file), file)


def _backend(config: GatewayConfig, actions: Actions, instance_id: str) -> Backend:
    if config.openclaw is None:
        return AppBackend(app_of(config), actions, instance_id)
    try:
        from evertick.gateway.openclaw import OpenClawBackend

        return OpenClawBackend.of(config, config.openclaw, instance_id)
    except ModuleNotFoundError as error:
        raise Misuse(str(error)) from None
