"""What needs an extra names it where the extra is missing, whatever else could not be imported."""

import subprocess
import sys

import pytest

from evertick.base.lazy import missing_extra

WITHOUT = """
import sys

sys.modules[{package!r}] = None  # as if it were not installed
try:
    {code}
except ModuleNotFoundError as error:
    print(error, error.name)
"""
WORLD = "from evertick import App; from evertick.testing import World; World(App('x')).__enter__()."


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize(
    ("package", "code", "says"),
    [
        ("httpx2", "from evertick.client import Client", "clients need httpx2: pip install 'evertick[client]'"),
        (
            "prometheus_client",
            "from evertick.metrics import Metrics",
            "metrics need prometheus-client: pip install 'evertick[metrics]'",
        ),
        (
            "opentelemetry",
            "from evertick.integrations.otel import instrument",
            "traces need OpenTelemetry: pip install 'evertick[otel]'",
        ),
        (
            "websockets",
            "import evertick.gateway.openclaw",
            "OpenClaw is reached with websockets: pip install 'evertick[openclaw]'",
        ),
        ("sqlalchemy", WORLD + "engine", "engines need SQLAlchemy: pip install 'evertick[sqlalchemy]'"),
        ("sqlalchemy", WORLD + "async_engine", "engines need SQLAlchemy: pip install 'evertick[sqlalchemy]'"),
    ],
)
def test_a_missing_extra_is_named(package: str, code: str, says: str) -> None:
    program = WITHOUT.format(package=package, code=code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith(f"{says} {package}"), done.stderr


def test_another_missing_module_is_told_as_it_is() -> None:
    error = ModuleNotFoundError("No module named 'anyio'", name="anyio")
    assert missing_extra(error, "httpx2", "clients need httpx2", "client") is error
