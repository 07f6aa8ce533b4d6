"""The program under fire of `tests.gateway.test_kills`: a server whose gateways have an address."""

import logging
import os

import uvicorn  # noqa: F401  # imported once, for all processes that are begun

import evertick.server.application  # noqa: F401
from evertick.cli.root import run


def run_platform(folder: str, port: int, key: str) -> None:
    """A server, until it is killed."""
    logging.disable(logging.CRITICAL)
    os.chdir(folder)
    os.environ["EVERTICK_GATEWAY_KEY"] = key
    raise SystemExit(run(["serve", "--port", str(port), "app.py"]))
