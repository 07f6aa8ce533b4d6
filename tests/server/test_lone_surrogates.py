"""A lone surrogate, such as `os.listdir()` gives for a file name that is not UTF-8, wherever a program may write one.

Plain JSON keeps it, as values and as keys, and reads it back. Lists, pages and commands show its escape.
"""

import json
import re
from itertools import product
from typing import Any, Final

import pytest
from fastapi.routing import APIRoute

from evertick import ActionCtx, App, ApplicationError, JobResult, MutationCtx, Step, every
from evertick.app.functions_by_name import NamedFunctions
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.stored import readable
from evertick.dashboard.application import ROUTES as PAGES
from evertick.dashboard.application import Dashboard
from evertick.errors import InvalidArguments, Misuse
from evertick.server.application import ROUTES
from evertick.testing import replay
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.test_damaged_rows import change
from tests.cli.desk import commands
from tests.conftest import ON_BOTH_DATABASES
from tests.dashboard.conftest import Site
from tests.server.conftest import HOME, http_of, shop_on
from tests.server.test_unreadable_rows import WITH

ODD: Final = "caf\udce9.txt"
ESCAPED: Final = r"caf\udce9.txt"
FILES: Final = {"files": {ODD: [ODD, "é 😀"]}}


def odd_shop(open_app: OpenApp) -> App:
    """The shop, with functions that write file names which are not UTF-8."""
    app = shop_on(open_app)

    @app.action(name="odd.action")
    async def action(ctx: ActionCtx) -> None:
        ctx.log.info("cannot read %s", ODD)
        raise ValueError(f"cannot read {ODD}")

    @app.mutation(name="odd.data")
    def data(ctx: MutationCtx) -> None:
        raise ApplicationError(FILES)

    @app.workflow(name="odd.raises")
    async def raises(step: Step) -> None:
        raise ValueError(f"cannot read {ODD}")

    @app.workflow(name="odd.awaits")
    async def awaits(step: Step) -> None:
        await step.run(action)

    @app.workflow(name="odd.awaits_data")
    async def awaits_data(step: Step) -> None:
        await step.run(data)

    @app.workflow(name="odd.waits")
    async def waits(step: Step) -> Any:
        step.progress(FILES)
        step.log.info("cannot read %s", ODD)
        came = await step.wait_for("go")
        step.progress([came])
        await step.wait_for("end")

    return app


def addresses(tables: Any, prefix: str, ids: dict[str, list[str]]) -> list[str]:
    """Every address that is read, about each of the things; without streams and what is about other things."""
    found = []
    for route in [each for table in tables for each in table.routes if isinstance(each, APIRoute)]:
        names = re.findall(r"{(\w+)", path := route.path.replace(prefix, ""))
        if route.methods == {"GET"} and "events" not in path and set(names) <= ids.keys():
            for chosen in product(*(ids[name] for name in names)):
                found.append(re.sub(r"{\w+}", "{}", route.path.replace("{tenant}", "default")).format(*chosen))
    return found


@ON_BOTH_DATABASES
def test_what_a_program_writes_is_shown_everywhere(
    open_app: OpenApp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = odd_shop(open_app)
    http = http_of(app)
    http.server.show(Dashboard())
    site = Site(app, http.server, http.secret)
    document = app.db.insert("u", FILES | {ODD: ODD})
    raises = app.functions.resolve("odd.raises").with_args()
    app.schedules.create("s", when=every(hours=1), do=raises, memo=FILES, note=ODD)
    http.ok("PATCH", f"{HOME}/schedules/s", json={"note": "n"}, headers={"Idempotency-Key": "k"})
    app.schedules.pause("s", ODD)
    app.schedules.trigger("s")
    view = app.views.create("schedules", "Mine", {"q": "x"}, shared=True).id
    change(app, "update {}saved_views set", "params = ?", params=r'{"q": "\udce9"}')
    waits = app.workflows.start("odd.waits")
    with Engine(app) as engine:
        jobs = [app.scheduler.run_after(0, name) for name in ("odd.action", "odd.data")]
        runs = [app.workflows.start(name) for name in ("odd.raises", "odd.awaits", "odd.awaits_data")]
        for each in [*jobs, *runs]:
            engine.wait(each)
        app.workflows.signal(waits, "left", FILES)
        app.workflows.signal(waits, "go", FILES)
        engine.until(lambda: app.workflows.get(waits).progress == [FILES] or None)
        engine.until(lambda: app.schedules.get("s").last_failure)

    assert app.db.get(document).items() >= (FILES | {ODD: ODD}).items()
    assert app.schedules.get("s").memo == FILES
    errors = [app.jobs.get(each).error or {} for each in jobs]
    assert (errors[0]["message"], errors[1]["data"]) == (f"cannot read {ODD}", FILES)
    assert replay(app.functions.resolve("odd.waits"), http("GET", f"{HOME}/workflows/{waits}/history").text) is None

    runs = [runs[-1], waits]
    ids = {
        "job_id": jobs[1:], "run_id": runs, "document_id": [document], "table": ["u"], "schedule_id": ["s"],
        "view_id": [view], "name": ["odd.action"],
    }  # fmt: skip
    failed = []
    for path in addresses(ROUTES, "{tenant}", ids):
        reply = http("GET", path + WITH.get(path.removeprefix(HOME), ""))
        failed += [(path, reply.text)] * (reply.status_code >= 500)
    assert not failed
    for path in [*addresses(PAGES, "{tenant}", ids), "functions?state=failed", "workflows?state=failed"]:
        reply = site.request("GET", path)
        failed += [(path, reply.text)] * (reply.status_code >= 500)
    assert not failed
    for path in (
        "workflows?state=failed",
        "functions?state=failed",
        "data/u",
        "bulk/schedules/export?row=s",
        "audit.jsonl",
    ):
        assert ESCAPED in site.request("GET", path).text, path
    for path in (f"jobs/{jobs[1]}", "workflows", "tables/u/documents", f"workflows/{waits}/history", "schedules/s"):
        assert ESCAPED in http("GET", f"{HOME}/{path}").text, path

    monkeypatch.setenv("EVERTICK_DATABASE_URL", app.environment.store.url)
    run = commands(capsys)
    for line in (
        "job list --state failed", f"job get {jobs[1]}", f"job logs {jobs[0]}", "workflow list",
        f"workflow get {waits}", f"workflow history {waits}", f"workflow history {runs[0]}",
        "data list u", f"data get {document}", "schedule describe s", "logs",
    ):  # fmt: skip
        for form in ([], ["-o", "json"]):
            ended = run(*line.split(), *form)
            assert ended.code == 0, (line, ended.err)
            assert "udce9.txt" in ended.out or not form, line
    for form in ("yaml", "json"):
        assert ESCAPED in run("schedule", "export", "s", "-o", form).out
    assert run("data", "list", "u", "-o", "json").json[0]["fields"] == FILES | {ODD: ODD}


def test_what_follows_a_failed_job_reads_its_error(open_app: OpenApp) -> None:
    app, told = odd_shop(open_app), list[JobResult]()

    @app.mutation(name="odd.after")
    def after(ctx: MutationCtx, job_id: str, context: Any, result: JobResult) -> None:
        told.append(result)

    failed = app.scheduler.using(on_complete=after).run_after(0, "odd.data")
    with Engine(app) as engine:
        engine.wait(failed)
        engine.until(lambda: told or None)
    assert told == [JobResult("failed", error=told[0].error, error_data={"files": {ESCAPED: [ESCAPED, "é 😀"]}})]


@pytest.mark.parametrize("value", ["plain", ODD, ESCAPED, "\\" + ODD, "\ud83d😀\ude00", {ODD: [ODD]}])
def test_json_is_readable_with_each_lone_surrogate_written_out(value: Any) -> None:
    written = json.loads(readable(json.dumps(value)))
    assert json.dumps(written, ensure_ascii=False).encode()
    assert (written == value) is (value in ("plain", ESCAPED))


def test_arguments_and_addresses_have_none(open_app: OpenApp) -> None:
    app = shop_on(open_app)
    with pytest.raises(InvalidArguments, match="surrogate"):
        NamedFunctions(app.environment.store, DEFAULT_TENANT).resolve("elsewhere").encode_args((), {"files": {ODD: 1}})
    with pytest.raises(Misuse, match="surrogate"):
        app.views.create("jobs", "Odd", {"q": ODD})
