"""Keys: what is accepted when a job is scheduled names it in Python, over HTTP, on the command line and on pages."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from evertick import App, MutationCtx, Step
from evertick.base.job_options import RESERVED_KEYS
from evertick.errors import Misuse
from tests.cli.desk import Command, commands
from tests.server.conftest import HOME, http_of

ID = "0" * 28
KEYS = [
    "order-7", "a/b", "a//b/", "/", "a b", " a ", "50%", "%2F", "a?b=c", "a#b", "a;b", "..a", "a/../b", "-x", "--help",
    "job", "job:42", "jobs", "order_42", "late", "café",
    "cafe\u0301", "日本", "\x07", "a\nb", "\u202e", "🦔", "~", "null",
    "k" * 512, "\\", '"', "'", "*", "a=b", "@x", "attempts", "retry", "+1",
]  # fmt: skip
REFUSED = ["", "job_42", "job_", f"job_{ID}", f"orders_{ID}", ".", "..", "count", "a\0b", "\ud800", "k" * 513]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setenv("EVERTICK_DATABASE_URL", f"sqlite:///{tmp_path}/shop.db")
    app = App("shop")

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx) -> None: ...

    @app.workflow(name="shop.fulfil")
    async def fulfil(step: Step) -> None:
        await step.wait_for("paid")

    app.migrate()
    return app


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return commands(capsys)


@pytest.mark.parametrize("key", KEYS)
def test_an_accepted_key_names_its_job_everywhere(shop: App, command: Command, key: str) -> None:
    http = http_of(shop)
    order = shop.functions.resolve("shop.order")

    job_id = shop.scheduler.using(key=key).run_after(60, order)

    path = f"{HOME}/jobs/{quote(key, safe='')}"
    assert shop.jobs.get(key).id == job_id
    assert http.ok("GET", path)["id"] == job_id
    assert http.ok("GET", f"{path}/attempts") == []
    assert command("job", "get", "-o", "json", "--", key).json["id"] == job_id
    assert [job.id for job in shop.jobs.list(key=key).jobs] == [job_id]
    http.ok("POST", f"{path}/cancel")
    assert shop.jobs.get(job_id).state == "canceled"
    again = shop.scheduler.using(key=key).run_after(60, order)
    assert command("job", "cancel", "--", key).code == 0
    assert shop.jobs.get(again).state == "canceled"
    last = shop.scheduler.using(key=key).run_after(60, order)
    shop.scheduler.cancel(key)
    assert shop.jobs.get(last).state == "canceled"


@pytest.mark.parametrize("key", KEYS)
def test_an_accepted_key_names_its_run_everywhere(shop: App, command: Command, key: str) -> None:
    http = http_of(shop)
    fulfil = shop.functions.resolve("shop.fulfil")

    run_id = http.ok("POST", f"{HOME}/workflows", json={"function": fulfil.name, "key": key})["id"]

    path = f"{HOME}/workflows/{quote(key, safe='')}"
    assert shop.workflows.get(key).id == run_id
    assert http.ok("GET", path)["id"] == run_id
    assert command("workflow", "get", "-o", "json", "--", key).json["id"] == run_id
    shop.workflows.signal(key, "paid")
    http.ok("POST", f"{path}/signal", json={"event": "paid"})
    assert command("workflow", "cancel", "--", key).code == 0
    assert shop.workflows.get(run_id).state == "canceled"


@pytest.mark.parametrize("key", REFUSED)
def test_a_key_that_could_not_be_used_later_is_refused_when_scheduling(shop: App, key: str) -> None:
    http = http_of(shop)
    with pytest.raises(Misuse):
        shop.scheduler.using(key=key)
    with pytest.raises(Misuse):
        shop.workflows.using(key=key)
    if "\ud800" not in key:
        assert http("POST", f"{HOME}/jobs", json={"function": "shop.order", "key": key}).status_code == 422
        assert http("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "key": key}).status_code == 422


def test_no_address_below_jobs_has_the_form_of_a_key(shop: App) -> None:
    """An address such as /jobs/count would hide the job with this key."""
    api = http_of(shop).ok("GET", "/openapi.json")["paths"]

    found = {
        path.rpartition("/")[2]
        for path, ways in api.items()
        if re.search("/(jobs|workflows)/[^/{]+$", path) and "get" in ways
    }

    assert found <= RESERVED_KEYS
