"""Scripts over HTTP: the routes, the audit log, and the client."""

import asyncio
from typing import Any

import pytest

from evertick import App
from evertick.app.status import status_of
from evertick.base.ids import DEFAULT_TENANT
from evertick.client import AsyncClient, Client
from evertick.errors import InvalidScript, Misuse, ScriptInUse, ScriptNotFound, VersionConflict
from evertick.sandbox import Language
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.server.conftest import HOME, Http, http_of
from tests.server.serving import serving
from tests.walls import level

SOURCE = "export default async (ctx) => ctx.input"


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app whose customers have scripts."""
    app = open_app("crm")
    app.scripts.tables("outbox", write=["outbox"])
    app.migrate()
    app.open()
    return app


def made(http: Http, name: str = "echo", source: str = SOURCE) -> Any:
    """A new script."""
    body = {"name": name, "language": "javascript", "source": source}
    return http.ok("POST", f"{HOME}/scripts", json=body)


def test_a_script_goes_through_its_life(app: App) -> None:
    """Each change has a line in the audit log, and none is made over another one that was not seen."""
    http = http_of(app)
    first = made(http)
    assert (first["published"], first["is_changed"]) == (None, True)
    url = f"{HOME}/scripts/echo"
    assert http("GET", url).headers["etag"] == f'"{first["revision"]}"'

    edited = http.ok("PATCH", url, json={"note": "new"}, headers={"If-Match": f'"{first["revision"]}"'})
    assert (edited["note"], edited["source"]) == ("new", SOURCE)
    late = http.problem(412, "PATCH", url, json={"note": "x"}, headers={"If-Match": f'"{first["revision"]}"'})
    assert late["code"] == "version_conflict"

    tried = http.ok("POST", f"{url}/test", json={"input": [1]})
    assert (tried["outcome"], tried["result"], tried["isolation"]) == ("ok", [1], level())
    assert http.ok("POST", f"{url}/publish")["version"] == 1
    http.ok("PATCH", url, json={"source": "export default async (ctx) => 2"})
    http.ok("POST", f"{url}/publish", json={"note": "two"})
    assert [each["version"] for each in http.ok("GET", f"{url}/versions")] == [2, 1]
    assert http.ok("POST", f"{url}/rollback", json={"version": 1})["source"] == SOURCE
    assert http.ok("GET", f"{url}/versions/2")["note"] == "two"

    twice = [http.ok("POST", f"{url}/run", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert twice[0] == twice[1]
    assert http.ok("GET", f"{HOME}/script-runs", params={"script": "echo"}) == []
    [listed] = http.ok("GET", f"{HOME}/scripts")
    assert (listed["name"], listed["published"], "source" in listed) == ("echo", 1, False)
    assert http.problem(409, "DELETE", url)["code"] == "script_in_use"
    http.ok("POST", f"{HOME}/jobs/{twice[0]['id']}/cancel")
    assert http("DELETE", url).status_code == 204

    changes = http.ok("GET", f"{HOME}/audit-log")["changes"]
    assert [each["action"] for each in reversed(changes) if each["target"] == "echo"] == [
        "script.create", "script.edit", "script.publish", "script.edit", "script.publish", "script.rollback",
        "script.delete",
    ]  # fmt: skip


def test_mistakes_are_told(app: App) -> None:
    http = http_of(app)
    body = {"name": "bad", "language": "javascript", "source": "export default async (ctx) => {\n  let = ;\n}"}
    problem = http.problem(422, "POST", f"{HOME}/scripts", json=body)
    assert (problem["code"], problem["line"]) == ("invalid_script", 2)
    perl = http.problem(422, "POST", f"{HOME}/scripts/check", json={"language": "perl", "source": ""})
    assert "javascript or python" in perl["detail"]
    made(http)
    assert http.problem(409, "POST", f"{HOME}/scripts", json={**body, "name": "echo", "source": SOURCE})
    assert http.problem(404, "POST", f"{HOME}/scripts/echo/run")["code"] == "script_not_found"
    assert http.problem(404, "POST", f"{HOME}/scripts/echo/rollback", json={"version": 9})["code"] == "script_not_found"


def test_text_that_no_database_keeps_is_refused(app: App) -> None:
    http = http_of(app)
    made(http)
    assert http("GET", f"{HOME}/scripts/a%00b").status_code == 404
    for method, path, options in (
        ("GET", "scripts", {"params": {"after": "\0"}}),
        ("GET", "script-runs", {"params": {"script": "\0"}}),
        ("GET", "script-runs/a%00b", {}),
        ("POST", "scripts/echo/publish", {"json": {"note": "\0"}}),
        ("PATCH", "scripts/echo", {"json": {"note": "\0"}}),
    ):
        assert "without NUL" in http.problem(422, method, f"{HOME}/{path}", **options)["detail"], path


def test_limits_name_the_schedules_that_no_longer_fit(app: App) -> None:
    http = http_of(app)
    made(http)
    http.ok("POST", f"{HOME}/scripts/echo/publish")
    runs = {"function": "evertick.script", "args": {"script": "echo", "input": 1}}
    http.ok("POST", f"{HOME}/schedules", json={"id": "d", "when": "every day at 9:00", **runs})

    raised = http.ok("PATCH", "/api/v1/tenants/default/script-limits", json={"interval_ms": 86_400_001})

    assert raised["misfits"] == http.ok("GET", f"{HOME}/script-limits")["misfits"] == ["d"]


def test_limits_are_set_by_the_operator_and_seen_by_the_tenant(app: App) -> None:
    http = http_of(app)
    acme = http.by("admin", "acme")
    limits = http.ok("PATCH", "/api/v1/tenants/acme/script-limits", json={"cpu_ms": 5_000, "hosts": ["a.example"]})
    assert (limits["limits"]["cpu_ms"], limits["own"]) == (5_000, ["cpu_ms", "hosts"])
    assert acme.ok("GET", "/api/v1/tenants/acme/script-limits") == limits
    assert acme("PATCH", "/api/v1/tenants/acme/script-limits", json={"cpu_ms": 9_000}).status_code == 403
    assert "no_such" in http.problem(422, "PATCH", "/api/v1/tenants/acme/script-limits", json={"no_such": 1})["detail"]
    [change] = [
        each for each in http.ok("GET", "/api/v1/audit-log")["changes"] if each["action"] == "script.limits"
    ]  # fmt: skip
    assert change["target"] == "acme"


def test_an_input_needs_the_scope_edit(app: App) -> None:
    http = http_of(app)
    made(http)
    http.ok("POST", f"{HOME}/scripts/echo/publish")
    operator = http.by("operate", "default")
    assert operator("POST", f"{HOME}/scripts/echo/run").status_code == 201
    assert operator("POST", f"{HOME}/scripts/echo/run", json={"input": 1}).status_code == 403


def test_ready_shows_the_isolation_where_scripts_are_used(app: App, open_app: OpenApp) -> None:
    http = http_of(app)
    assert http.ok("GET", "/ready")["isolation"] == {each.value: level(each) for each in Language}
    plain = http_of(open_app("plain"))
    assert plain.ok("GET", "/ready") == {"ok": True}
    assert "app.scripts" in plain.problem(404, "GET", f"{HOME}/scripts")["detail"]


def test_the_status_shows_the_isolation_where_scripts_have_run() -> None:
    app = App("crm")
    app.scripts.enable()
    with World(app) as world:
        e = app.environment
        assert e.store.view(lambda tx: status_of(tx, None, e.clock.now())).isolation is None
        app.scripts.create("s", SOURCE, language="javascript")
        app.scripts.publish("s")
        app.scripts.start("s")
        world.advance(1)
        assert e.store.view(lambda tx: status_of(tx, DEFAULT_TENANT, e.clock.now())).isolation == level()


def test_a_client_does_all_of_it(app: App) -> None:
    token = app.tokens.create("root", scope="admin").secret
    with serving(app) as url, Client(url, token=token) as client:
        scripts = client.scripts
        draft = scripts.create("s", SOURCE, language="javascript", parameters={"type": "integer"})
        assert scripts.edit("s", note="n", if_revision=draft.revision).parameters == {"type": "integer"}
        with pytest.raises(VersionConflict):
            scripts.publish("s", if_revision=draft.revision)
        assert scripts.publish("s").version == 1
        with pytest.raises(Misuse, match="must be of type integer"):
            scripts.start("s", "text")
        job_id = scripts.start("s", 1)
        assert scripts.test("s", 3).result == 3
        assert scripts.edit("s", parameters=None).parameters is None
        with pytest.raises(InvalidScript) as caught:
            scripts.check("let a = 1;\nlet a = 2;", language="javascript")
        assert caught.value.line == 2
        assert (scripts.version("s", 1).source, [each.version for each in scripts.versions("s")]) == (SOURCE, [1])
        assert scripts.rollback("s", 1).version == 1
        assert ([each.name for each in scripts.list()], scripts.runs("s"), scripts.run("job_x")) == (["s"], (), ())
        runs = {"function": "evertick.script", "args": {"script": "s", "input": 1}}
        client.request("POST", "schedules", body={"id": "d", "when": "every day at 9:00", **runs})
        with pytest.raises(ScriptInUse, match="'s' is used by the schedules d"):
            scripts.delete("s")
        client.schedules.delete("d")
        with pytest.raises(ScriptInUse, match=f"'s' has runs that have not ended: {job_id}; cancel these jobs first"):
            scripts.delete("s")
        client.jobs.cancel(job_id)
        scripts.delete("s")
        with pytest.raises(ScriptNotFound):
            scripts.get("s")
        assert scripts.set_plan(cpu_ms=2_000).limits["cpu_ms"] == scripts.limits().limits["cpu_ms"] == 2_000
        assert scripts.isolation()["python"].level == level(Language.PYTHON)

        async def awaited() -> int:
            async with AsyncClient(url, token=token) as other:
                return len(await other.scripts.list())

        assert asyncio.run(awaited()) == 0
