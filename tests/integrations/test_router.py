"""The HTTP API inside other web applications: below which path it is, and who is let in."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from litestar import Litestar, asgi
from litestar.testing import TestClient as LitestarClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from evertick import App, MutationCtx
from evertick.dashboard.application import Dashboard
from evertick.errors import InvalidTenant, Misuse
from evertick.integrations.asgi import Authorize, Identity, lifespan, router
from tests.server.conftest import database_url

__all__ = ["database_url"]

JOBS = "/api/v1/tenants/default/jobs"


@pytest.fixture
def app(database_url: str) -> Iterator[App]:
    app = App("shop", database_url=database_url)

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str = "") -> str:
        return text

    yield app
    app.close()


def by_header(request: Request) -> Identity | None:
    """The login of an application, as far as it matters here."""
    name, _, scope = request.headers.get("x-user", "").partition(":")
    return Identity(name=name, tenant="default", scope=scope or "edit") if name else None


def fastapi_at(prefix: str, app: App, **options: Any) -> TestClient:
    api = FastAPI(lifespan=lifespan(app))
    api.mount(prefix, router(app, **options))
    return TestClient(api)


def starlette_at(prefix: str, app: App, **options: Any) -> TestClient:
    outer, _, inner = prefix[1:].partition("/")
    inside = [Mount(f"/{inner}", app=router(app, **options))]
    return TestClient(Starlette(routes=[Mount(f"/{outer}", routes=inside)], lifespan=lifespan(app)))


def litestar_at(prefix: str, app: App, **options: Any) -> Any:
    mounted = asgi(prefix, is_mount=True, copy_scope=True)(router(app, **options))
    return LitestarClient(Litestar([mounted], lifespan=[lifespan(app)]))


EVERYWHERE = pytest.mark.parametrize("at", [fastapi_at, starlette_at, litestar_at])
ADA = {"x-user": "ada"}


@EVERYWHERE
def test_it_is_below_any_prefix(app: App, at: Any) -> None:
    with at("/my/jobs", app, authorize=by_header) as client:
        made = client.post(f"/my/jobs{JOBS}", json={"function": "note", "after": 60}, headers=ADA)
        assert made.status_code == 201, made.text
        read = client.get(f"/my/jobs{JOBS}/{made.json()['id']}", headers=ADA)
        assert (read.status_code, read.json()["state"]) == (200, "pending")
        assert client.get("/my/jobs/health").json() == {"ok": True}
        assert client.get(f"/my{JOBS}", headers=ADA).status_code == 404


@EVERYWHERE
def test_its_description_says_where_it_is(app: App, at: Any) -> None:
    everything = lambda request: Identity(name="ada", tenant=None, scope="admin")  # noqa: E731
    with at("/my/jobs", app, authorize=everything) as client:
        described = client.get("/my/jobs/openapi.json").json()

    assert described["servers"] == [{"url": "/my/jobs"}]
    assert "/api/v1/tenants/{tenant}/jobs" in described["paths"]


@EVERYWHERE
def test_a_slash_inside_of_an_id_does_not_part_it(app: App, at: Any) -> None:
    with at("/my/jobs", app, authorize=by_header) as client:
        body = {"id": "a/b c", "when": "every day at 09:00", "function": "note"}
        assert client.post("/my/jobs/api/v1/tenants/default/schedules", json=body, headers=ADA).status_code == 201
        read = client.get("/my/jobs/api/v1/tenants/default/schedules/a%2Fb%20c", headers=ADA)

    assert read.status_code == 200, read.text
    assert read.json()["id"] == "a/b c"


@pytest.mark.parametrize("path", ["/my/jobs", "/proxy/my/jobs"])
@pytest.mark.filterwarnings("ignore:The `root_path` parameter is deprecated")
def test_fastapi_behind_a_proxy_that_may_remove_its_own_prefix(app: App, path: str) -> None:
    api = FastAPI(lifespan=lifespan(app), root_path="/proxy")
    api.mount("/my/jobs", router(app, authorize=by_header))
    with TestClient(api) as client:
        assert client.get(f"{path}{JOBS}", headers=ADA).status_code == 200


def test_nobody_is_let_in_by_oversight(app: App) -> None:
    with pytest.raises(Misuse, match="would be public"):
        router(app)
    with pytest.raises(Misuse, match="function of a request"):
        router(app, authorize="ada")  # type: ignore[arg-type]


def test_tokens_are_those_of_the_app(app: App) -> None:
    with fastapi_at("/jobs", app, tokens=True) as client:
        token = app.tokens.create("billing", scope="read", tenant="default").secret
        assert client.get(f"/jobs{JOBS}", headers=ADA).status_code == 401
        bearer = {"Authorization": f"Bearer {token}"}
        assert client.get(f"/jobs{JOBS}", headers=bearer).status_code == 200
        assert client.post(f"/jobs{JOBS}", json={"function": "note"}, headers=bearer).status_code == 403


def test_tokens_and_a_login_beside_each_other(app: App) -> None:
    with fastapi_at("/jobs", app, tokens=True, authorize=by_header) as client:
        token = app.tokens.create("billing", scope="read", tenant="default").secret
        assert client.get(f"/jobs{JOBS}", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert client.get(f"/jobs{JOBS}", headers=ADA).status_code == 200
        assert client.get(f"/jobs{JOBS}").status_code == 401


def test_without_tokens_a_token_is_none(app: App) -> None:
    with fastapi_at("/jobs", app, authorize=by_header) as client:
        token = app.tokens.create("billing", scope="admin").secret
        assert client.get(f"/jobs{JOBS}", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_an_identity_reaches_its_tenant_and_does_what_its_scope_allows(app: App) -> None:
    with fastapi_at("/jobs", app, authorize=by_header) as client:
        reader = {"x-user": "bob:read"}
        assert client.get(f"/jobs{JOBS}", headers=reader).status_code == 200
        assert client.post(f"/jobs{JOBS}", json={"function": "note"}, headers=reader).status_code == 403
        assert client.get("/jobs/api/v1/tenants/acme/jobs", headers=ADA).status_code == 403
        assert client.get("/jobs/api/v1/tenants", headers=ADA).status_code == 403
        assert client.get("/jobs/openapi.json", headers=ADA).status_code == 403


def test_changes_are_in_the_audit_log_under_the_name(app: App) -> None:
    with fastapi_at("/jobs", app, authorize=by_header) as client:
        job = client.post(f"/jobs{JOBS}", json={"function": "note", "after": 60}, headers=ADA).json()["id"]
        assert client.post(f"/jobs{JOBS}/{job}/cancel", headers=ADA).status_code == 200
        [change] = app.audit_log.list(tenant="default").changes

    assert (change.actor, change.action, change.target) == ("user ada", "job.cancel", job)


async def asynchronous(request: Request) -> Identity | None:
    return by_header(request)


class Login:
    async def __call__(self, request: Request) -> Identity | None:
        return by_header(request)


@pytest.mark.parametrize("authorize", [by_header, asynchronous, Login()])
def test_it_may_be_of_any_kind_of_function(app: App, authorize: Authorize) -> None:
    with fastapi_at("/jobs", app, authorize=authorize) as client:
        assert client.get(f"/jobs{JOBS}", headers=ADA).status_code == 200
        assert client.get(f"/jobs{JOBS}").status_code == 401


def test_what_goes_wrong_in_it_lets_nobody_in(app: App) -> None:
    def fails(request: Request) -> Identity | None:
        raise {"http": HTTPException(418, "a teapot"), "bug": ZeroDivisionError("secret")}[request.headers["how"]]

    with fastapi_at("/jobs", app, authorize=fails) as client:
        refused = client.get(f"/jobs{JOBS}", headers={"how": "http"})
        assert (refused.status_code, refused.json()["detail"]) == (418, "a teapot")
        client._transport.raise_server_exceptions = False  # type: ignore[attr-defined]
        broken = client.get(f"/jobs{JOBS}", headers={"how": "bug"})
    assert broken.status_code == 500
    assert "secret" not in broken.text


@pytest.mark.parametrize("found", [True, "ada", object()])
def test_only_an_identity_lets_in(app: App, found: object) -> None:
    with fastapi_at("/jobs", app, authorize=lambda request: found) as client:
        client._transport.raise_server_exceptions = False  # type: ignore[attr-defined]
        assert client.get(f"/jobs{JOBS}").status_code == 500


def test_an_identity_is_checked_where_it_is_made() -> None:
    with pytest.raises(Misuse, match="not a scope"):
        Identity(name="ada", tenant="default", scope="root")
    with pytest.raises(Misuse, match="printable"):
        Identity(name="a\nb", tenant="default")
    with pytest.raises(InvalidTenant):
        Identity(name="ada", tenant="")


ORIGINS = {
    "http://testserver": 200, "http://evil.example": 403, "http://testserver:81": 403, "null": 403, "": 403,
    "http://testserver.evil.example": 403,
}  # fmt: skip


@pytest.mark.parametrize("origin", ORIGINS)
def test_pages_of_other_sites_cannot_use_the_cookies_of_a_user(app: App, origin: str) -> None:
    with fastapi_at("/jobs", app, authorize=by_header) as client:
        job = client.post(f"/jobs{JOBS}", json={"function": "note", "after": 60}, headers=ADA).json()["id"]
        sent = client.post(f"/jobs{JOBS}/{job}/cancel", headers=ADA | {"Origin": origin})

    assert sent.status_code == ORIGINS[origin], sent.text


def test_hosts_are_the_names_of_the_server_and_of_its_pages(app: App) -> None:
    with fastapi_at("/jobs", app, authorize=by_header, hosts=["testserver", "pages.example"]) as client:
        assert client.get(f"/jobs{JOBS}", headers=ADA | {"Origin": "https://pages.example"}).status_code == 200
        assert client.get(f"/jobs{JOBS}", headers=ADA | {"Origin": "https://evil.example"}).status_code == 403
        assert client.get(f"/jobs{JOBS}", headers=ADA | {"Host": "evil.example"}).status_code == 421


def test_the_state_of_the_application_is_left_alone(app: App) -> None:
    api = FastAPI(lifespan=lifespan(app))
    api.mount("/jobs", router(app, authorize=by_header))

    @api.get("/own")
    def own(request: Request) -> dict[str, str]:
        return {"path": request.url.path, "state": str(getattr(request.state, "caller", None))}

    with TestClient(api) as client:
        client.get(f"/jobs{JOBS}", headers=ADA)
        assert client.get("/own").json() == {"path": "/own", "state": "None"}
        assert client.get("/openapi.json").json()["paths"].keys() == {"/own"}


def test_pages_below_a_prefix_take_forms(app: App) -> None:
    mounted = router(app, authorize=by_header)
    mounted.show(Dashboard())
    api = FastAPI(lifespan=lifespan(app))
    api.mount("/my/jobs", mounted)
    with TestClient(api) as client:
        form = {"when": "now", "a.text": "hello"}
        sent = client.post(
            "/my/jobs/t/default/functions/note/run", data=form, headers=ADA | {"origin": str(client.base_url)}
        )
        assert sent.status_code == 200 and "hello" in sent.text, sent.text
        missing = client.get("/my/jobs/api/v1/nothing", headers={"accept": "text/html"})
        assert missing.headers["content-type"] == "application/problem+json"
