"""Keys: what is accepted when a job is scheduled names it in Python, over HTTP, on the command line and on pages."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from starlette.routing import Route

from evertick import App, MutationCtx, Step
from evertick.base.job_options import RESERVED_KEYS
from evertick.errors import Misuse
from tests.cli.desk import Command, commands
from tests.sampling import one_in
from tests.server.conftest import HOME, Http, http_of

ID = "0" * 28
KEYS: Final = [
    "order-7", "a/b", "a//b/", "/", "a b", " a ", "50%", "%2F", "a?b=c", "a#b", "a;b", "..a", "a/../b", "-x", "--help",
    "job", "job:42", "jobs", "order_42", "late", "café",
    "cafe\u0301", "日本", "\x07", "a\nb", "\u202e", "🦔", "~", "null",
    "k" * 512, "\\", '"', "'", "*", "a=b", "@x", "attempts", "retry", "+1",
]  # fmt: skip
COMMANDED: Final = ["a/b", " a ", "-x", "--help", "a\nb", "🦔"]
"""Keys that say what the command line makes of a word, as all of them do for addresses."""
REFUSED: Final = ["", "job_42", "job_", f"job_{ID}", f"orders_{ID}", ".", "..", "count", "a\0b", "\ud800", "k" * 513]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    app = App("shop", database_url=f"sqlite:///{tmp_path_factory.mktemp('keys')}/shop.db")

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx) -> None: ...

    @app.workflow(name="shop.fulfil")
    async def fulfil(step: Step) -> None:
        await step.wait_for("paid")

    app.migrate()
    with app:
        yield app


@pytest.fixture(scope="module")
def http(shop: App) -> Http:
    return http_of(shop)


@pytest.fixture
def command(shop: App, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("EVERTICK_DATABASE_URL", shop.database_url)
    return commands(capsys)


@pytest.mark.parametrize("key", one_in(6, KEYS))
def test_an_accepted_key_names_its_job_everywhere(shop: App, http: Http, key: str) -> None:
    job_id = shop.scheduler.using(key=key).run_after(60, "shop.order")

    path = f"{HOME}/jobs/{quote(key, safe='')}"
    assert shop.jobs.get(key).id == job_id
    assert http.ok("GET", path)["id"] == job_id
    assert [job.id for job in shop.jobs.list(key=key).jobs] == [job_id]
    http.ok("POST", f"{path}/cancel")
    assert shop.jobs.get(job_id).state == "canceled"
    last = shop.scheduler.using(key=key).run_after(60, "shop.order")
    shop.scheduler.cancel(key)
    assert shop.jobs.get(last).state == "canceled"


@pytest.mark.parametrize("key", one_in(6, KEYS))
def test_an_accepted_key_names_its_run_everywhere(shop: App, http: Http, key: str) -> None:
    run_id = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "key": key})["id"]

    path = f"{HOME}/workflows/{quote(key, safe='')}"
    assert http.ok("GET", path)["id"] == run_id
    shop.workflows.signal(key, "paid")
    http.ok("POST", f"{path}/signal", json={"event": "paid"})
    shop.workflows.cancel(key)
    assert shop.workflows.get(run_id).state == "canceled"


@pytest.mark.parametrize("key", COMMANDED)
def test_an_accepted_key_is_an_argument_of_commands(shop: App, command: Command, key: str) -> None:
    job_id = shop.scheduler.using(key=key).run_after(60, "shop.order")
    fulfil: Any = shop.functions.resolve("shop.fulfil")
    run_id = shop.workflows.using(key=f"{key}2").start(fulfil)

    assert command("job", "get", "-o", "json", "--", key).json["id"] == job_id
    assert command("workflow", "get", "-o", "json", "--", f"{key}2").json["id"] == run_id
    assert command("job", "cancel", "--", key).code == 0
    assert command("workflow", "cancel", "--", f"{key}2").code == 0
    assert shop.jobs.get(job_id).state == "canceled"
    assert shop.workflows.get(run_id).state == "canceled"


@pytest.mark.parametrize("key", REFUSED)
def test_a_key_that_could_not_be_used_later_is_refused_when_scheduling(shop: App, http: Http, key: str) -> None:
    with pytest.raises(Misuse):
        shop.scheduler.using(key=key)
    with pytest.raises(Misuse):
        shop.workflows.using(key=key)
    if "\ud800" not in key:
        for path, function in (("jobs", "shop.order"), ("workflows", "shop.fulfil")):
            problem = http.problem(422, "POST", f"{HOME}/{path}", json={"function": function, "key": key})
            assert "key" in problem["detail"], problem


@pytest.mark.long
def test_no_address_below_jobs_has_the_form_of_a_key(http: Http) -> None:
    """An address such as /jobs/count would hide the job with this key."""
    read = [each for each in http.server.api.routes if isinstance(each, Route) and "GET" in (each.methods or ())]

    found = {each.path.rpartition("/")[2] for each in read if re.search("/(jobs|workflows)/[^/{]+$", each.path)}

    assert found
    assert found <= RESERVED_KEYS
