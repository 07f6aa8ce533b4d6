"""How uvicorn runs a server. Signals are its owner's."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import uvicorn

from evertick.server.protocol import TimedProtocol

STOP_S: Final = 2
"""How long requests that are under way may take to end when the server is told to stop."""

Application = Callable[[Any, Any, Any], Awaitable[None]]


def uvicorn_of(served: Application, tls: Mapping[str, Path | None] | None = None) -> uvicorn.Server:
    """What runs a server on the running loop; `should_exit` ends it. `tls` has ssl_certfile and ssl_keyfile."""
    config = uvicorn.Config(
        served,
        http=TimedProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
        **(tls or {}),  # type: ignore[arg-type]
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign,assignment]  # its own handlers end the process once more
    return server
