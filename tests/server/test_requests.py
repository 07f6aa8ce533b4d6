"""What a server refuses before or while it reads a request, and how it says so."""

import asyncio
import gzip
import logging
import re
from collections.abc import Iterator
from datetime import datetime

import httpx2
import psutil
import pytest
from fastapi.routing import APIRoute

from evertick import ActionCtx, App, MutationCtx
from evertick.base.errors import DatabaseUnavailable, WriteConflict
from evertick.base.records.access import AccessToken
from evertick.dashboard.application import Dashboard
from evertick.dashboard.visitors import COOKIE
from evertick.server import callers, limits
from evertick.server.limits import Limits, Rate
from evertick.server.routes import fleet, functions, workflows
from evertick.store.write_health import WriteFailure
from tests.app.conftest import OpenApp
from tests.postgres import PostgresServer
from tests.server.conftest import HOME, Http, http_of, shop_on

JSON = {"Content-Type": "application/json"}
ORDER = {"function": "shop.order", "args": {"item": "x"}}
CALL = f"{HOME}/functions/shop.order/call"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"args": {"item": "x", "item": "y"}}', "the member 'item' is there twice"),
        (b'{"args": {"item": "x", "n": NaN}}', "NaN is not a number of JSON"),
        (b'{"args": {"item": "x", "n": -Infinity}}', "-Infinity is not a number of JSON"),
        (b'{"args": {"item": "\\ud800"}}', "a lone surrogate"),
        (b'{"args": {"item": "\xff"}}', "UTF-8"),
        ('{"args": {"item": "x"}}'.encode("utf-16"), "UTF-8"),
        ('{"args": {"item": "x"}}'.encode("utf-16-le"), "is not JSON"),
        (('{"a": ["\u2200", ' + "[" * 900 + "]" * 900 + "]}").encode("utf-16-le"), "is not JSON"),
        (('{"a": ["\u2200", ' + "[" * 900 + "]" * 900 + "]}").encode("utf-32"), "UTF-8"),
        (b"[" * 100_000, "more than 100 levels deep"),
        (b'{"a": ' * 50_000 + b"1" + b"}" * 50_000, "more than 100 levels deep"),
        (b'{"args": ', "is not JSON"),
        (b'{"args": {"item": "x", "n": 1e400}}', "beyond the largest number"),
        (b'{"args": {"n": 1' + b"0" * 10_000 + b"}}", "is not JSON"),
    ],
)
def test_what_is_no_json_is_refused(http: Http, body: bytes, says: str) -> None:
    found = http.problem(422, "POST", CALL, content=body, headers=JSON)
    assert found["code"] == "invalid_json"
    assert says in found["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b'\\"' * 2_000_000,
        b'"\\' * 2_000_000,
        b'["' * 2_000_000,
        b'{"args": {' + b"".join(b'"%d": 1, ' % n for n in range(200_000)) + b'"199999": 1}}',
    ],
    ids=["quotes", "backslashes", "lists", "members"],
)
def test_a_body_costs_no_more_than_its_size(http: Http, body: bytes) -> None:
    """Each of these took hours: the test would not end."""
    assert http.problem(422, "POST", CALL, content=body, headers=JSON)["code"] == "invalid_json"


def test_a_body_may_begin_with_a_mark_of_its_bytes(http: Http) -> None:
    http.ok("POST", CALL, content=b"\xef\xbb\xbf" + b'{"args": {"item": "x"}}', headers=JSON)


def test_brackets_inside_of_texts_are_not_deep(http: Http) -> None:
    http.ok("POST", CALL, json={"args": {"item": "[" * 1_000 + '\\"' + "{" * 1_000}})


def test_a_body_has_a_media_type_and_a_size(open_app: OpenApp) -> None:
    http = http_of(shop_on(open_app), Limits(body_bytes_max=1_000))

    assert http.problem(415, "POST", CALL, content=b"a=1")["code"] == "unsupported_media_type"
    assert http.problem(413, "POST", CALL, json={"args": {"item": "x" * 1_000}})["code"] == "body_too_large"

    async def parts():
        for _ in range(100):
            yield b" " * 100

    assert http.problem(413, "POST", CALL, content=parts(), headers=JSON)["code"] == "body_too_large"


def test_nothing_of_a_body_is_read_without_a_token(http: Http) -> None:
    async def endless():
        yield b"["
        raise AssertionError("it was read")

    without = Http(http.app, http.server, None)
    without.problem(401, "POST", CALL, content=endless(), headers=JSON)


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io", "127.0.0.1:99999999"]
)
def test_a_foreign_host_is_refused(http: Http, host: str) -> None:
    found = http.problem(421, "GET", "/health", headers={"Host": host})
    assert found["code"] == "wrong_host"


def test_a_page_of_another_site_is_refused(http: Http) -> None:
    for origin in ("http://evil.example", "https://localhost.evil.example", "null://evil"):
        assert http.problem(403, "POST", CALL, json={}, headers={"Origin": origin})["code"] == "foreign_origin"


def test_every_reply_keeps_browsers_from_guessing(http: Http) -> None:
    for reply in (http("GET", "/health"), http("GET", "/none"), http("GET", "/health", headers={"Host": "evil"})):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-request-id"].startswith("req_")


def test_too_many_requests_have_to_wait(open_app: OpenApp) -> None:
    http = http_of(shop_on(open_app), Limits(requests=Rate(3, 3_600)))
    assert [http("GET", "/health").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    assert int(http("GET", "/health").headers["retry-after"]) > 1_000


def test_guessing_tokens_is_slow(open_app: OpenApp) -> None:
    http = http_of(shop_on(open_app), Limits(failures=Rate(3, 3_600)))
    guess = Http(http.app, http.server, "evt_" + "0" * 28 + "_" + "a" * 49)
    assert [guess("GET", f"{HOME}/jobs").status_code for _ in range(5)] == [401, 401, 401, 429, 429]
    assert http("GET", f"{HOME}/jobs").status_code == 200  # from the same address, with a token


def test_a_rate_remembers_so_many_clients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.server.limits.CLIENTS_MAX", 3)
    rate = Rate(1, 3_600)
    assert [rate.wait_s(name) > 0 for name in "abcda"] == [False] * 5
    assert rate.wait_s("a") > 0


@pytest.mark.parametrize("how", ["plain", "hostile", "exit", "stop", "own"])
def test_what_a_function_raises_is_a_problem_without_a_traceback(http: Http, how: str) -> None:
    found = http.problem(422, "POST", f"{HOME}/functions/shop.fail/call", json={"args": {"how": how}})
    assert found["code"] in ("function_failed", "evertick_error")
    assert "Traceback" not in str(found)


def test_an_error_of_the_server_tells_nothing(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(fleet, "status_of", broken)
    with caplog.at_level(logging.ERROR, "evertick.server"):
        found = http.problem(500, "GET", "/api/v1/status")
    assert "secret" not in str(found)
    assert found["request"] in caplog.text
    assert "a secret" in caplog.text


def test_a_database_that_is_away_is_a_503(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: object) -> None:
        raise DatabaseUnavailable("10.0.0.7 does not reply")

    monkeypatch.setattr(fleet, "status_of", away)
    found = http.problem(503, "GET", "/api/v1/status")
    assert found["code"] == "database_unavailable"
    assert "10.0.0.7" not in str(found)
    monkeypatch.setattr(http.app.environment.store, "read", away)
    assert http.problem(503, "GET", "/ready")["code"] == "not_ready"
    assert http.ok("GET", "/health") == {"ok": True}


def test_a_database_that_cannot_be_written_is_told_wherever_one_looks(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who needs no token is not told where it is."""
    store = http.app.environment.store
    failure = WriteFailure("its disk is full", "the disk of /srv/a.db is full", 61_000)
    assert http.ok("GET", "/api/v1/status")["unwritable"] is None
    assert http.ok("GET", f"{HOME}/overview")["unwritable"] is None
    monkeypatch.setattr(store, "write_failure", lambda **_: failure)

    told = http.problem(503, "GET", "/ready")["detail"]
    assert re.fullmatch(r"the database cannot be written since 20\S+Z: its disk is full", told)
    for path in ("/api/v1/status", f"{HOME}/status", f"{HOME}/overview"):
        found = http.ok("GET", path)
        assert found["unwritable"]["reason"] == "its disk is full"
        assert (datetime.fromisoformat(found["at"]) - datetime.fromisoformat(found["unwritable"]["since"])).seconds > 60
    finding = next(each for each in http.ok("GET", "/api/v1/doctor")["findings"] if each["check"] == "writes")
    assert "since" in finding["detail"] and "/srv/a.db is full" in finding["detail"]


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Http]:
    """A server whose PostgreSQL hangs: all its processes are stopped, and the connections stay open."""
    with PostgresServer() as server:
        app = App("shop", database_url=server.databases.create())
        app.mutation(name="shop.order")(lambda ctx, item: None)
        app.migrate()
        app.open()
        http = http_of(app)
        sent = [http("POST", f"{HOME}/jobs", json=ORDER), http("GET", f"{HOME}/jobs"), http("GET", "/ready")]
        assert [each.status_code for each in sent] == [201, 200, 200]
        monkeypatch.setattr(limits, "REPLY_S", 0.5)
        main = psutil.Process(int((server.data_directory / "postmaster.pid").read_text().split()[0]))
        processes = [main, *main.children()]
        for process in processes:
            process.suspend()
        try:
            yield http
        finally:
            for process in processes:
                process.resume()
            app.close()


@pytest.mark.long
def test_a_database_that_hangs_is_a_503_in_time(hangs: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads can be tried again; a change may have happened, unless its token was not looked up yet."""
    for method, path in (("GET", f"{HOME}/jobs"), ("GET", "/ready"), ("POST", f"{HOME}/jobs")):
        found = hangs.problem(503, method, path, json=ORDER if method == "POST" else None)
        assert found["code"] == "database_unavailable"

    async def known(request: object) -> AccessToken:
        return callers.LOCAL

    monkeypatch.setattr(callers, "token_in", known)
    for path, body in (
        ("jobs", ORDER), ("functions/shop.order/call", {"args": {"item": "x"}}), ("jobs/cancel-all", {}),
    ):  # fmt: skip
        found = hangs.problem(503, "POST", f"{HOME}/{path}", json=body)
        assert (found["code"], "may have happened or not" in found["detail"]) == ("outcome_unknown", True), path
    assert hangs.problem(503, "GET", f"{HOME}/jobs")["code"] == "database_unavailable"


def test_what_takes_long_by_its_nature_has_its_time(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shop_on(open_app)
    app.action(name="shop.slow")(lambda ctx: None)
    app.action(name="shop.timed", timeout=40)(lambda ctx: None)
    http = http_of(app)
    run_id = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "args": {"order_id": "7"}})["id"]
    given: list[float | None] = []
    for module in (functions, workflows):
        monkeypatch.setattr(module, "take_longer", given.append)

    for name in ("slow", "timed", "count"):
        http.ok("POST", f"{HOME}/functions/shop.{name}/call", json={"args": {}})
    http.ok("GET", f"{HOME}/workflows/{run_id}/result", params={"wait": 0.01})
    assert given == [None, 40, 10, 0.01]


def test_the_time_of_a_request_is_moved_while_it_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPLY_S", 0.05)

    async def lasting(*longer: float | None) -> None:
        async with limits.in_time(changes=False):
            for each in longer:
                limits.take_longer(each)
            await asyncio.sleep(0.1)

    asyncio.run(lasting(30))
    asyncio.run(lasting(None))
    for longer in ((), (30, 0)):
        with pytest.raises(DatabaseUnavailable, match=r"no reply of the database within 0\.05 s"):
            asyncio.run(lasting(*longer))
    limits.take_longer()  # without a request there is no limit


def test_addresses_that_do_not_exist(http: Http) -> None:
    assert http.problem(404, "GET", "/api/v1/nothing")["code"] == "not_found"
    assert http.problem(405, "DELETE", "/health")["code"] == "method_not_allowed"
    assert http.problem(404, "GET", "/docs")["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/health", "GET, HEAD"),
        (f"{HOME}/schedules", "GET, HEAD, POST"),
        (f"{HOME}/schedules/x", "DELETE, GET, HEAD, PATCH, PUT"),
        (CALL, "POST"),
    ],
)
def test_a_refused_method_is_told_all_that_its_address_takes(http: Http, path: str, methods: str) -> None:
    reply = http("PROPFIND", path)
    assert (reply.status_code, reply.headers["allow"]) == (405, methods)
    assert (http("HEAD", path).status_code == 405) is ("HEAD" not in methods)


def test_unknown_members_and_wrong_types_are_named(http: Http) -> None:
    found = http.problem(422, "POST", f"{HOME}/jobs", json={"function": "shop.order", "fater": 5})
    assert found["code"] == "invalid_request"
    assert {"at": "body.fater", "message": "there is no such member; did you mean 'after'?"} in found["errors"]
    found = http.problem(422, "GET", f"{HOME}/jobs?limit=0&colour=red")
    assert {each["at"] for each in found["errors"]} == {"query.limit", "query.colour"}
    http.problem(422, "POST", f"{HOME}/jobs", json={"function": "shop.order", "at": "2026-01-01T00:00:00"})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("jobs?limit=1&limit=2", "limit"),
        ("workflows/none/result?wait=1&wait=1", "wait"),
        ("schedules?limit=2&limit=2", "limit"),
    ],
)
def test_a_parameter_of_one_value_given_twice_is_named(http: Http, path: str, name: str) -> None:
    found = http.problem(422, "GET", f"{HOME}/{path}")
    assert [each["at"] for each in found["errors"]] == [f"query.{name}"]
    assert "more than once" in found["detail"]


def test_a_parameter_that_takes_a_list_may_be_given_twice(http: Http) -> None:
    assert http("GET", f"{HOME}/jobs?state=failed&state=pending").status_code == 200


def test_many_requests_at_once_are_served(http: Http) -> None:
    async def all_of_them() -> list[int]:
        import httpx2

        transport = httpx2.ASGITransport(app=http.server)
        headers = {"Authorization": f"Bearer {http.secret}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            calls = [client.post(CALL, json={"args": {"item": f"i{n}"}}) for n in range(50)]
            return [reply.status_code for reply in await asyncio.gather(*calls)]

    assert set(asyncio.run(all_of_them())) == {200}
    assert http.ok("POST", f"{HOME}/functions/shop.count/call", json={}) == 50


def test_an_action_that_has_begun_never_looks_as_if_nothing_was_done(open_app: OpenApp) -> None:
    """A client would send the call again after `database_unavailable`, and the action would run twice."""
    app = shop_on(open_app)

    @app.action(name="shop.charge")
    async def charge(ctx: ActionCtx, how: str) -> None:
        errors = {"db": DatabaseUnavailable, "conflict": WriteConflict, "time": TimeoutError}
        raise errors.get(how, asyncio.CancelledError)("after the charge")

    http = http_of(app)
    for how in ("db", "conflict", "time", "cancel"):
        found = http.problem(422, "POST", f"{HOME}/functions/shop.charge/call", json={"args": {"how": how}})
        assert found["code"] == "function_failed"
    assert http.problem(422, "POST", f"{HOME}/functions/shop.charge/call", json={})["code"] == "invalid_arguments"


def test_only_an_admin_gives_internal_functions_other_arguments(http: Http) -> None:
    app = http.app
    app.schedules.create("s", when="0 9 * * *", do=app.functions.resolve("shop.secret"))
    job_id = app.scheduler.run_after(3_600, "shop.secret")
    app.jobs.cancel(job_id)
    editor, operator = http.by("edit", tenant="default"), http.by("operate", tenant="default")
    trigger, retry = f"{HOME}/schedules/s/trigger", f"{HOME}/jobs/{job_id}/retry"

    for method, path in (("POST", trigger), ("POST", retry), ("PATCH", f"{HOME}/schedules/s")):
        refused = editor.problem(403, method, path, json={"args": {}})
        assert refused["code"] == "not_allowed", "the schedule and the job name it, so it is no secret"
        assert refused["detail"] == "shop.secret is internal: other arguments need the scope admin"
    for path in (trigger, retry):
        assert operator.problem(403, "POST", path, json={"args": {}})["code"] == "not_allowed"
    operator.ok("POST", trigger)
    http.ok("POST", retry, json={"args": {}})

    @app.mutation(name="shop.private", internal=True)
    def private(ctx: MutationCtx, item: str) -> None: ...

    app.schedules.create("p", when="0 9 * * *", do=private.with_args("x"))
    many = f"{HOME}/schedules/update-all"
    assert editor.problem(403, "POST", many, json={"rename": {"item": "n"}})["code"] == "not_allowed"
    assert editor.problem(404, "POST", many, json={"do": "shop.private"})["code"] == "function_not_found"
    assert http.ok("POST", many, json={"do": "shop.private", "id_contains": "p"})["count"] == 0


@pytest.mark.parametrize(
    ("status", "headers", "content"),
    [
        (403, {"Origin": "null"}, b"{}"),
        (403, {"Origin": "localhost"}, b"{}"),
        (400, {"Content-Length": "2", "Transfer-Encoding": "chunked"}, b"{}"),
        (400, {"Content-Length": "9" * 5_000}, b"{}"),
        (415, {"Content-Encoding": "gzip"}, gzip.compress(b"{}", mtime=0)),
        (415, {"Content-Encoding": "br"}, b"{}"),
    ],
)
def test_odd_heads_are_refused(http: Http, status: int, headers: dict[str, str], content: bytes) -> None:
    http.problem(status, "POST", CALL, content=content, headers=JSON | headers)


def test_a_request_with_two_lengths_ends_its_connection(http: Http) -> None:
    """What follows it may be the rest of a body, and must not be taken for a request (RFC 9112, 6.1)."""
    both = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    assert http("POST", CALL, content=b"{}", headers=JSON | both).headers["connection"] == "close"
    assert "connection" not in http("POST", CALL, content=b"{}", headers=JSON | {"Origin": "null"}).headers


def test_odd_moments_and_versions_are_refused(http: Http) -> None:
    for at in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        http.problem(422, "POST", f"{HOME}/schedules/preview", json={"when": "0 9 * * *", "start": at, "end": at})
    http.problem(412, "DELETE", f"{HOME}/schedules/none", headers={"If-Match": "9" * 5_000})


@pytest.mark.parametrize("written", ["2027", "20270101", "-5", "1e9", " 1800000000 ", "1_000", 1_800_000_000, 2027.5])
def test_a_number_is_no_moment(http: Http, written: str | float) -> None:
    """Pydantic reads seconds or milliseconds since 1970, and `at=2027` was explained as half an hour after midnight."""
    http.ok(
        "POST",
        f"{HOME}/schedules",
        json={"id": "s", "when": "0 9 * * *", "function": "shop.order", "args": {"item": "x"}},
    )
    asked = {"when": "0 9 * * *", "start": written, "end": "2027-01-01T00:00:00Z"}

    refused = [http.problem(422, "POST", f"{HOME}/schedules/preview", json=asked)]
    if isinstance(written, str):
        refused.append(http.problem(422, "GET", f"{HOME}/schedules/s/explain", params={"at": written}))
        span = {"start": written, "end": written}
        refused.append(http.problem(422, "GET", f"{HOME}/schedules/s/days", params=span))
    for each in refused:
        assert "write it as RFC 3339 does" in str(each)


def test_a_body_has_its_time(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.server.limits.BODY_S", 0.05)

    async def slow():
        yield b"{"
        await asyncio.sleep(30)

    assert http.problem(408, "POST", CALL, content=slow(), headers=JSON)["code"] == "request_timeout"


def test_behind_a_proxy_the_last_address_counts(open_app: OpenApp) -> None:
    http = http_of(shop_on(open_app), Limits(behind_proxy=True, failures=Rate(2, 3_600.0)))
    stranger = Http(http.app, http.server, None)

    for n, status in enumerate((401, 401, 429)):
        stranger.problem(status, "GET", f"{HOME}/jobs", headers={"X-Forwarded-For": f"9.9.9.{n}, 203.0.113.7"})
    stranger.problem(401, "GET", f"{HOME}/jobs", headers={"X-Forwarded-For": "203.0.113.7, 203.0.113.8"})


def test_a_page_of_jobs_ends_when_it_is_large(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.app.paging.PAGE_CHARS_MAX", 10_000)
    monkeypatch.setattr("evertick.app.paging.AT_ONCE", 2)
    for _ in range(7):
        http.app.scheduler.run_after(3_600, "shop.order", item="x" * 4_000)
    for newest_first in (False, True):
        sizes, ids, cursor = [], [], None
        while True:
            params = {"newest_first": newest_first} | ({} if cursor is None else {"cursor": cursor})
            page = http.ok("GET", f"{HOME}/jobs", params=params)
            sizes.append(len(page["jobs"]))
            ids += [job["id"] for job in page["jobs"]]
            if (cursor := page["cursor"]) is None:
                break
        assert sizes == [4, 3]
        assert ids == sorted(set(ids), reverse=newest_first)


@pytest.mark.long
def test_wrong_items_cost_no_more_than_one(http: Http) -> None:
    """Each was an error of its own, of some kilobytes: ten times as many took half a minute and a gigabyte."""
    span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    for body in ({"when": [1] * 100_000}, {"when": ["0 9 * * *"] * 1_001}, {str(n): n for n in range(30_000)}):
        found = http.problem(422, "POST", f"{HOME}/schedules/preview", json=span | body)
        assert len(found["errors"]) <= 5
    http.problem(422, "POST", f"{HOME}/jobs/cancel-all", json={"state": ["gone"] * 100_000})


def test_what_is_under_way_when_the_server_ends_is_unknown(open_app: OpenApp) -> None:
    app = shop_on(open_app)

    @app.action(name="shop.long")
    async def long(ctx: ActionCtx) -> None:
        await asyncio.sleep(600)

    http = http_of(app)

    async def cut(method: str, path: str) -> str:
        transport = httpx2.ASGITransport(app=http.server)
        headers = {"Authorization": f"Bearer {http.secret}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            task = asyncio.create_task(
                client.request(method, path, headers=headers, json={} if method == "POST" else None)
            )
            await asyncio.sleep(0.2)
            task.cancel()
            return str((await task).json()["code"])

    assert asyncio.run(cut("POST", f"{HOME}/functions/shop.long/call")) == "outcome_unknown"


def test_long_polls_return_when_the_server_ends(http: Http) -> None:
    run_id = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "args": {"order_id": "7"}})["id"]
    http.server.hints.end()
    assert http("GET", f"{HOME}/workflows/{run_id}/result", params={"wait": 60}).status_code == 202


def test_head_is_get_without_the_body(http: Http) -> None:
    for path in ("/health", f"{HOME}/jobs"):
        got, head = http("GET", path), http("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(got.content))
    anonymous = http("HEAD", f"{HOME}/jobs", headers={"Authorization": ""})
    assert (anonymous.status_code, anonymous.content) == (401, b"")
    assert http("HEAD", "/api/v1/nothing").status_code == 404


@pytest.mark.long
def test_a_parameter_that_a_route_does_not_know_is_refused_on_every_route(http: Http) -> None:
    """Ignored it would do harm: a rehearsal that cancels, a filter that shows everything."""
    http.server.show(Dashboard())
    job_id = http.ok("POST", f"{HOME}/jobs", json={"function": "shop.order", "args": {"item": "x"}, "after": "1h"})[
        "id"
    ]

    refused = http.problem(422, "POST", f"{HOME}/jobs/cancel-all?dry_run=true", json={})
    assert refused["detail"] == "query.dry_run: there is no such parameter; this address takes none"
    http.problem(422, "POST", f"{HOME}/jobs/cancel-all", json={"dry_run": True})
    refused = http.problem(422, "POST", f"{HOME}/jobs/{job_id}/cancel", json={"dry_run": True})
    assert refused["detail"] == "this address takes no body"
    assert http.ok("GET", f"{HOME}/jobs/{job_id}")["state"] == "pending"

    visitor = {"sec-fetch-site": "same-origin", "cookie": f"{COOKIE}={http.secret}"}
    routes = [each for each in http.server.api.router.routes if isinstance(each, APIRoute)]
    assert len(routes) > 150
    for route in routes:
        if route.path.endswith(":path}"):
            continue  # no page is there
        path = re.sub(r"{\w+}", "default", route.path)
        for method in route.methods:
            reply = http(method, f"{path}?nonsense=1", headers=visitor)
            assert (reply.status_code, "nonsense" in reply.text) == (422, True), (method, route.path, reply.text)
