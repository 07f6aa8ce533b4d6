"""The example of a CRM: its own tests, and two service instances of it on one PostgreSQL."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest

from tests.cli.programs import PYTEST, Program, environment, evertick
from tests.postgres import free_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "crm"
PATIENCE_S = 120.0
COMPANIES = ("acme", "globex")
DAYS = 10
MAILS_ITS_TIME = """export default async function (ctx) {
  await ctx.mail("boss@example.com", String(ctx.run.scheduledAt), ctx.tenant.id)
  return (await ctx.cases.waiting(0)).map(each => each.title)
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example."""
    made = tmp_path / "crm"
    shutil.copytree(EXAMPLE, made, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    return made


@pytest.mark.long
@pytest.mark.processes
def test_the_tests_of_the_example(folder: Path) -> None:
    ran = subprocess.run(
        PYTEST, cwd=folder, env=environment(), capture_output=True, text=True, timeout=400, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 passed" in ran.stdout


class Fleet:
    """Instances of the service, and requests to them in the name of companies."""

    def __init__(self, folder: Path, url: str) -> None:
        changes = {"CRM_DATABASE_URL": url, "PYTHONPATH": f"{environment()['PYTHONPATH']}:{folder}"}
        evertick(folder, "migrate", "--db", url)
        subprocess.run(
            (sys.executable, "-c", "from crm.__main__ import fill; fill()"),
            cwd=folder, env=environment(**changes), timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        self._database = url
        self.ports = (free_port(), free_port())
        self.programs = [
            Program(folder, "crm.web:api", "--port", str(port), command=(sys.executable, "-m", "uvicorn"), **changes)
            for port in self.ports
        ]
        for each in self.programs:
            each.wait_for("Application startup complete")
        self.keys = dict(self.rows("select name, key from companies"))

    def rows(self, statement: str) -> list[Any]:
        """What the database says."""
        with psycopg.connect(self._database) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[call-overload, no-any-return]

    def ask(self, instance: int, company: str, method: str, path: str, body: Any = None) -> Any:
        """A request to an instance with the key of a company. Raises HTTPError."""
        headers = {"X-Api-Key": self.keys[company], "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        address = f"http://127.0.0.1:{self.ports[instance]}{path}"
        with urlopen(Request(address, data, headers, method=method), timeout=60) as reply:
            text = reply.read()
            return json.loads(text) if text[:1] in (b"[", b"{") else text.decode()

    def refused(self, instance: int, company: str, path: str) -> int:
        """The status of a request that must fail."""
        with pytest.raises(HTTPError) as refused:
            self.ask(instance, company, "GET", path)
        with refused.value as reply:
            return reply.code


@pytest.fixture
def fleet(folder: Path, postgres_url: str) -> Iterator[Fleet]:
    """Two instances on one database."""
    made = Fleet(folder, postgres_url)
    yield made
    for each in made.programs:
        each.close()


@pytest.mark.long
@pytest.mark.processes
def test_two_instances_run_each_occurrence_once_and_no_company_reaches_another(fleet: Fleet) -> None:
    """Times of the last ten days are caught up at once, so that both instances have much to do."""
    last = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    times = [last - timedelta(days=each) for each in range(DAYS)]
    for instance, company in enumerate(COMPANIES):
        api = f"/automation/api/v1/tenants/{company}"
        script = {"name": "daily", "language": "javascript", "source": MAILS_ITS_TIME}
        fleet.ask(instance, company, "POST", f"{api}/scripts", script)
        fleet.ask(instance, company, "POST", f"{api}/scripts/daily/publish")
        call = {"function": "evertick.script", "args": {"script": "daily", "input": None}}
        daily = {"id": "daily", "when": "0 0 * * *", "overlap": "allow_all"} | call
        fleet.ask(instance, company, "POST", f"{api}/schedules", daily)
        span = {"start": times[-1].isoformat(), "end": times[0].isoformat(), "overlap": "allow_all"}
        fleet.ask(instance, company, "POST", f"{api}/schedules/daily/backfills", span)

    deadline = time.monotonic() + PATIENCE_S
    ended = "select tenant, outcome from evertick.script_runs where script = 'daily'"
    while len(runs := fleet.rows(ended)) < DAYS * len(COMPANIES):
        assert time.monotonic() < deadline, runs
        time.sleep(0.2)

    assert Counter(runs) == {(company, "ok"): DAYS for company in COMPANIES}
    wanted = sorted(str(int(each.timestamp() * 1_000)) for each in times)
    for instance, company in enumerate(COMPANIES):
        mails = fleet.ask(1 - instance, company, "GET", "/mails")
        assert sorted(each["subject"] for each in mails if each["to"] == "boss@example.com") == wanted
        assert {each["body"] for each in mails if each["to"] == "boss@example.com"} == {company}

    acme, globex = COMPANIES
    api = f"/automation/api/v1/tenants/{acme}"
    for path in (
        *(f"{api}/{each}" for each in ("scripts/daily", "script-runs", "jobs")),
        f"/automation/t/{acme}/scripts",
    ):
        assert fleet.refused(1, globex, path) in (403, 404)
    page = fleet.ask(1, globex, "GET", f"/automation/t/{globex}/scripts")
    assert "daily" in page and "open-carts" in page
