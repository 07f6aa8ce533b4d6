"""The program under fire of `tests.gateway.test_kills`: a gateway."""

import asyncio
import contextlib
import logging
from pathlib import Path

from evertick.base.errors import Unavailable
from evertick.gateway.process import gateway_of


def run_gateway(folder: str) -> None:
    """A process, until it is killed."""
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(Unavailable):
        asyncio.run(gateway_of(Path(folder) / "gateway.toml").run())
