"""Who reaches what, for every route there is: each scope, no token, and tokens of other tenants."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from evertick.base.records.access import Scope
from evertick.server.application import ROUTES, Server
from evertick.server.callers import PUBLIC, SCOPE_KEY
from tests.app.conftest import OpenApp
from tests.sampling import one_in
from tests.server.conftest import HOME, Http, http_of, shop_on

TABLE = [route for routes in ROUTES for route in routes.routes if isinstance(route, APIRoute)]


def scope_of(route: APIRoute) -> str:
    """What a route needs."""
    return str((route.openapi_extra or {})[SCOPE_KEY])


def path_of(route: APIRoute, tenant: str) -> str:
    """A route's address, about things that do not exist."""
    return re.sub(r"\{\w+\}", "none", route.path.replace("{tenant}", tenant))


def statuses(http: Http, tenant: str) -> Iterator[tuple[APIRoute, int]]:
    """The status of each route that needs a token, about a tenant."""
    for route in TABLE:
        if scope_of(route) != PUBLIC:
            body: dict[str, Any] = {} if route.methods == {"GET"} or route.methods == {"DELETE"} else {"json": {}}
            [method] = route.methods
            if route.path.endswith("/events"):
                body = {"params": {"seconds": 0}}  # else it goes on for an hour
            yield route, http(method, path_of(route, tenant), **body).status_code


def test_the_table_is_whole() -> None:
    assert len(TABLE) > 60
    assert {scope_of(route) for route in TABLE} == {PUBLIC, *Scope}
    own = {f"/api/v1/gateways/{each}" for each in ("register", "heartbeat", "rotate", "deregister", "commands")}
    public = {route.path for route in TABLE if scope_of(route) == PUBLIC}
    assert public == {"/health", "/ready", *own}  # gateways have secrets of their own


@pytest.mark.parametrize("scope", one_in(2, [None, *Scope]))
def test_a_token_reaches_the_routes_of_its_scope_alone(open_app: OpenApp, scope: Scope | None) -> None:
    root = http_of(shop_on(open_app))
    root.server.api.state.limits.failures._most = 1_000
    http = Http(root.app, root.server, None) if scope is None else root.by(scope)
    for route, status in statuses(http, "default"):
        if scope is None:
            assert status == 401, route.path
        elif scope.includes(Scope(scope_of(route))):
            assert status not in (401, 403) and status < 500, (route.path, status)
        else:
            assert status == 403, route.path


@pytest.mark.long
def test_a_token_of_a_tenant_reaches_nothing_of_others(open_app: OpenApp) -> None:
    http = http_of(shop_on(open_app)).by("admin", tenant="acme")
    for own in ("acme", "~"):
        for route, status in statuses(http, own):
            is_own = "{tenant}" in route.path
            assert (status not in (401, 403) and status < 500) if is_own else status == 403, (route.path, status)
    for route, status in statuses(http, "default"):
        assert status == 403, route.path


def test_what_others_have_looks_like_what_does_not_exist(http: Http) -> None:
    job = http.ok("POST", f"{HOME}/jobs", json={"function": "shop.order", "args": {"item": "x"}, "after": 60})["id"]
    run = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "args": {"order_id": "x"}})["id"]
    token = http.ok("POST", f"{HOME}/tokens", json={"name": "t"})["id"]
    acme, unknown = http.by("admin", tenant="acme"), "0" * 28

    for path, known, other in (
        ("jobs/{}", job, f"job_{unknown}"),
        ("jobs/{}/cancel", job, f"job_{unknown}"),
        ("workflows/{}", run, f"job_{unknown}"),
        ("workflows/{}/terminate", run, f"job_{unknown}"),
        ("tokens/{}/revoke", token, f"token_{unknown}"),
    ):
        method = "POST" if path.count("/") > 1 else "GET"
        found = [acme.problem(404, method, f"/api/v1/tenants/acme/{path.format(each)}") for each in (known, other)]
        texts = [str(each | {"request": ""}).replace(known, "ID").replace(other, "ID") for each in found]
        assert texts[0] == texts[1]
    assert http.ok("GET", f"{HOME}/jobs/{job}")["state"] == "pending"


def test_a_request_may_give_up_a_part_of_its_scope(http: Http) -> None:
    """Never more than the token has: a header adds nothing."""
    less = {"headers": {"Evertick-Scope": "read"}}
    assert http.ok("GET", f"{HOME}/me", **less)["scope"] == "read"
    refused = http.problem(403, "POST", f"{HOME}/functions/shop.order/call", json={"args": {"item": "x"}}, **less)
    assert refused["detail"] == "calling shop.order needs a token with the scope edit"
    http.problem(403, "GET", f"{HOME}/tokens", **less)
    reader = http.by("read", tenant="default")
    assert reader.ok("GET", f"{HOME}/me", headers={"Evertick-Scope": "admin"})["scope"] == "read"
    twice = [("Evertick-Scope", "admin"), ("Evertick-Scope", "read")]
    assert http.ok("GET", f"{HOME}/me", headers=twice)["scope"] == "read"
    assert http.ok("GET", f"{HOME}/me", headers=twice[::-1])["scope"] == "read"
    unknown = http.problem(422, "GET", f"{HOME}/me", headers={"Evertick-Scope": "all"})
    assert unknown["detail"] == "Evertick-Scope is one of read, operate, edit, admin, not 'all'"


def test_a_query_needs_less_than_a_mutation(http: Http) -> None:
    reader = http.by("read", tenant="default")
    assert reader.ok("POST", f"{HOME}/functions/shop.count/call", json={"args": {}}) == 0
    refused = reader.problem(403, "POST", f"{HOME}/functions/shop.order/call", json={"args": {"item": "x"}})
    assert refused["code"] == "not_allowed"


def test_internal_functions_are_there_for_admins_alone(http: Http) -> None:
    editor = http.by("edit")
    unknown = {"json": {"function": "shop.secret"}}
    assert editor.problem(404, "POST", f"{HOME}/jobs", **unknown)["code"] == "function_not_found"
    editor.problem(404, "POST", f"{HOME}/functions/shop.secret/call", json={})
    assert "shop.secret" not in [each["name"] for each in editor.ok("GET", f"{HOME}/functions")]
    assert http.ok("POST", f"{HOME}/functions/shop.secret/call", json={}) is None


def test_a_route_without_a_scope_stops_the_server(open_app: OpenApp) -> None:
    class Pages:
        routes = (APIRouter(),)

        def takes_forms(self, path: str) -> bool:
            return False

    @Pages.routes[0].get("/open")
    def forgotten() -> None: ...

    with pytest.raises(RuntimeError, match="/open"):
        Server(shop_on(open_app)).show(Pages())


def test_a_server_for_its_own_user_asks_for_no_token(open_app: OpenApp) -> None:
    http = http_of(shop_on(open_app), asks_tokens=False)
    alone = Http(http.app, http.server, None)
    alone.ok("POST", f"{HOME}/functions/shop.order/call", json={"args": {"item": "x"}})
    alone.problem(421, "GET", f"{HOME}/jobs", headers={"Host": "evil.example"})
    alone.problem(403, "POST", f"{HOME}/jobs/cancel-all", json={}, headers={"Origin": "http://evil.example"})
    alone.ok("POST", f"{HOME}/jobs/cancel-all", json={}, headers={"Origin": "http://localhost:4400"})
