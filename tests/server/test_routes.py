"""What the routes do: jobs, schedules, backfills, workflows, pools, tenants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import MutationCtx, QueryCtx
from evertick.app.workflows import restart_all
from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import Instant
from evertick.base.records.history import AttemptLines, LogLine
from evertick.engine.jobs import completion
from evertick.server.callers import Caller
from tests.app.engine import Engine
from tests.conftest import ON_BOTH_DATABASES
from tests.server.conftest import HOME, Http, add_activity
from tests.store.rows import ANN, worker

pytestmark = ON_BOTH_DATABASES

ORDER = {"function": "shop.order", "args": {"item": "x"}}
NINE = {"id": "s", "when": "0 9 * * *", **ORDER}


def test_a_call_returns_what_the_function_returns_and_once_under_a_key(http: Http) -> None:
    path = f"{HOME}/functions/shop.order/call"
    first = http.ok("POST", path, json={"args": {"item": "x"}}, headers={"Idempotency-Key": "k"})
    assert http.ok("POST", path, json={"args": {"item": "x"}}, headers={"Idempotency-Key": "k"}) == first
    clash = http.problem(409, "POST", path, json={"args": {"item": "y"}}, headers={"Idempotency-Key": "k"})
    assert clash["code"] == "idempotency_conflict"
    assert http.ok("POST", f"{HOME}/functions/shop.count/call", json={}) == 1
    key = {"Idempotency-Key": "k"}
    assert http.problem(422, "POST", f"{HOME}/functions/shop.count/call", json={}, headers=key)["code"] == "misuse"
    assert http.problem(422, "POST", path, json={"args": {"itme": "x"}})["code"] == "invalid_arguments"
    assert http.problem(404, "POST", f"{HOME}/functions/shop.oder/call", json={})["code"] == "function_not_found"
    assert http.problem(422, "POST", f"{HOME}/functions/shop.fulfil/call", json={})["code"] == "misuse"


def test_a_result_that_json_does_not_have_is_null_as_in_the_other_replies(http: Http) -> None:
    @http.app.query(name="shop.mean")
    def mean(ctx: QueryCtx) -> dict[str, float]:
        return {"mean": float("nan"), "most": float("-inf"), "count": 0.5}

    reply = http("POST", f"{HOME}/functions/shop.mean/call", json={})
    assert reply.text == '{"mean": null, "most": null, "count": 0.5}'


def test_the_functions_are_listed_with_their_parameters(http: Http) -> None:
    [order] = [each for each in http.ok("GET", f"{HOME}/functions") if each["name"] == "shop.order"]
    assert order == {
        "name": "shop.order", "kind": "mutation", "pool": "default", "internal": False,
        "parameters": "(item: str, n: int = 1)", "description": "Order something.",
    }  # fmt: skip


def test_a_job_from_its_request_to_its_end(http: Http) -> None:
    body = {
        **ORDER,
        "after": "1h",
        "priority": 5,
        "limit_key": "ada",
        "pool": "mail",
        "retry": {"attempts": 3, "first": "1s"},
    }
    job_id = http.ok("POST", f"{HOME}/jobs", json=body, headers={"Idempotency-Key": "k"})["id"]
    assert http.ok("POST", f"{HOME}/jobs", json=body, headers={"Idempotency-Key": "k"})["id"] == job_id
    job = http.ok("GET", f"{HOME}/jobs/{job_id}")
    assert (job["state"], job["key"], job["priority"], job["limit_key"]) == ("pending", None, 5, "ada")
    assert job["pool"] == "mail"

    at = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    http.ok("POST", f"{HOME}/jobs/{job_id}/reschedule", json={"at": at})
    http.ok("POST", f"{HOME}/jobs/{job_id}/run-now")
    with Engine(http.app) as engine:
        engine.wait(job_id)
    assert [each["outcome"] for each in http.ok("GET", f"{HOME}/jobs/{job_id}/attempts")] == ["success"]
    assert http.ok("GET", f"{HOME}/jobs/{job_id}/logs") == {"lines": [], "is_truncated": False}
    assert http.ok("GET", f"{HOME}/jobs/counts")["shop.order"]["success"] == 1
    assert http.problem(409, "POST", f"{HOME}/jobs/{job_id}/retry")["code"] == "job_not_retryable"
    assert http.problem(404, "GET", f"{HOME}/jobs/job_{'0' * 28}")["code"] == "job_not_found"


def test_half_of_a_character_in_an_error_closes_no_list(http: Http) -> None:
    job_id = http.ok("POST", f"{HOME}/jobs", json={"function": "shop.fail", "args": {"how": "half"}})["id"]
    with Engine(http.app) as engine:
        engine.wait(job_id)
    failed = {"type": "ValueError", "message": "\ud800"}
    assert http.ok("GET", f"{HOME}/jobs/{job_id}")["error"].items() >= failed.items()
    [listed] = http.ok("GET", f"{HOME}/jobs?state=failed")["jobs"]
    assert listed["error"].items() >= failed.items()
    for path in (f"{HOME}/jobs/{job_id}/attempts", f"{HOME}/status", "/api/v1/status", f"{HOME}/overview"):
        http.ok("GET", path)


def test_what_is_made_under_a_key_is_made_once(http: Http) -> None:
    key = {"Idempotency-Key": "k1"}
    http.ok("POST", f"{HOME}/schedules", json=NINE)
    span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-03T00:00:00Z"}
    for path, body in (
        ("jobs", {**ORDER, "after": 60}),
        ("workflows", {"function": "shop.fulfil", "args": {"order_id": "7"}}),
        ("schedules/s/backfills", span),
    ):
        key = {"Idempotency-Key": f"key of {path}"}
        first = http.ok("POST", f"{HOME}/{path}", json=body, headers=key)
        assert http.ok("POST", f"{HOME}/{path}", json=body, headers=key)["id"] == first["id"]
        other = http.problem(409, "POST", f"{HOME}/{path}", json={**body, "key": "x"} if "args" in body else {
            **body, "skip_done": True}, headers=key)  # fmt: skip
        assert other["code"] == "idempotency_conflict"
    assert len(http.ok("GET", f"{HOME}/jobs?function=shop.order&state=pending")["jobs"]) == 1
    assert len(http.ok("GET", f"{HOME}/workflows")["runs"]) == 1
    assert [each["action"] for each in http.ok("GET", f"{HOME}/audit-log")["changes"]].count("schedule.backfill") == 1


def test_an_event_that_is_sent_under_a_key_is_sent_once(http: Http) -> None:
    run = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "args": {"order_id": "7"}})["id"]
    for _ in range(2):
        path, key = f"{HOME}/workflows/{run}/signal", {"Idempotency-Key": "k"}
        http.ok("POST", path, json={"event": "paid", "value": 12}, headers=key)
    actions = [each["action"] for each in http.ok("GET", f"{HOME}/audit-log")["changes"]]
    assert actions.count("workflow.signal") == 1


def test_an_event_that_was_not_taken_is_withdrawn(http: Http) -> None:
    run = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "args": {"order_id": "7"}})["id"]
    path = f"{HOME}/workflows/{run}"
    http.ok("POST", f"{path}/signal", json={"event": "payed", "value": {"amount": 12}})
    [waits] = http.ok("GET", path)["waiting_events"]
    done = http.ok("POST", f"{path}/withdraw", json={"event": "payed", "id": waits["id"]})
    assert done == {**waits, "value": {"amount": 12}}
    assert done["sent_by"].startswith("token ")
    assert http.ok("GET", path)["waiting_event_count"] == 0

    gone = http.problem(404, "POST", f"{path}/withdraw", json={"event": "payed"})
    assert gone["code"] == "not_found"
    [change] = [
        each for each in http.ok("GET", f"{HOME}/audit-log")["changes"] if each["action"] == "workflow.withdraw"
    ]
    assert (change["actor"], change["target"], change["after"]["value"]) == (
        done["sent_by"], f"{run} payed", {"amount": 12},
    )  # fmt: skip


@pytest.mark.parametrize("home", [HOME, "/api/v1"])
def test_a_token_that_is_made_under_a_key_is_made_once_and_its_secret_is_told_once(http: Http, home: str) -> None:
    made = http.ok("POST", f"{home}/tokens", json={"name": "reports"}, headers={"Idempotency-Key": "k"})
    again = http.problem(409, "POST", f"{home}/tokens", json={"name": "reports"}, headers={"Idempotency-Key": "k"})
    assert again["code"] == "already_exists" and made["id"] in again["detail"]
    http.problem(409, "POST", f"{home}/tokens", json={"name": "other"}, headers={"Idempotency-Key": "k"})
    rotate = f"{home}/tokens/{made['id']}/rotate"
    new = http.ok("POST", rotate, headers={"Idempotency-Key": "r"})
    assert new["id"] in http.problem(409, "POST", rotate, headers={"Idempotency-Key": "r"})["detail"]
    named = [each for each in http.ok("GET", f"{home}/tokens")["tokens"] if each["name"] == "reports"]
    assert len(named) == 2
    assert made["secret"] != new["secret"]


def test_a_change_of_many_is_made_in_pieces(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "CANCEL_PAGE", 2)
    for _ in range(5):
        http.app.scheduler.run_after(3_600, "shop.order", item="x")
    path, asked = f"{HOME}/jobs/cancel-all", {"function": "shop.order", "seconds": 0}

    first = http.ok("POST", path, json=asked | {"expect": 5})
    assert first["count"] == 2
    second = http.ok("POST", path, json=asked | {"expect": 5, "cursor": first["cursor"]})
    assert second["count"] == 2
    assert http.problem(409, "POST", path, json=asked | {"expect": 5})["code"] == "count_changed"
    assert http.ok("POST", path, json=asked | {"cursor": second["cursor"]}) == {"count": 1, "cursor": None}
    assert http.ok("POST", path, json={"function": "shop.order"}) == {"count": 0, "cursor": None}

    assert http.problem(422, "POST", path, json={"cursor": "a\0"})["code"] == "invalid_request"
    assert http.problem(422, "POST", path, json={"seconds": 61})["code"] == "invalid_request"
    assert http.ok("POST", path, json={"cursor": "zzz"})["count"] == 0


def test_lists_of_jobs_are_filtered_and_paged(http: Http) -> None:
    made = [http.ok("POST", f"{HOME}/jobs", json={**ORDER, "after": 60 + n, "key": f"k{n}"})["id"] for n in range(5)]
    page = http.ok("GET", f"{HOME}/jobs?limit=3&state=pending&state=failed&function=shop.order")
    rest = http.ok("GET", f"{HOME}/jobs?limit=3&state=pending&function=shop.order&cursor={page['cursor']}")
    assert sorted(each["id"] for each in page["jobs"] + rest["jobs"]) == sorted(made)
    assert [each["id"] for each in http.ok("GET", f"{HOME}/jobs?key=k3")["jobs"]] == [made[3]]
    assert http.ok("GET", f"{HOME}/jobs/count?state=pending&key=k3") == {"number": 1, "more": False}
    assert [each["id"] for each in http.ok("GET", f"{HOME}/jobs?id_prefix={made[3]}")["jobs"]] == [made[3]]
    assert http.ok("GET", f"{HOME}/jobs?id_prefix=%00")["jobs"] == []
    assert http.ok("POST", f"{HOME}/jobs/cancel-all", json={"id_prefix": "\0"})["count"] == 0
    some = {"function": "shop.order", "expect": 4}
    for action in ("cancel-all", "run-now-all"):
        refused = http.problem(409, "POST", f"{HOME}/jobs/{action}", json=some)
        assert (refused["code"], refused["detail"]) == (
            "count_changed",
            "5 jobs are chosen now, not 4; none was changed",
        )
    assert http.ok("POST", f"{HOME}/jobs/run-now-all", json={"key": "k2", "expect": 1}) == {"count": 1, "cursor": None}
    counted = {"function": "shop.order", "expect": 5}
    assert http.ok("POST", f"{HOME}/jobs/cancel-all", json=counted) == {"count": 5, "cursor": None}
    assert http.ok("POST", f"{HOME}/jobs/retry-all", json={}) == {"count": 0, "cursor": None}
    assert http.problem(422, "GET", f"{HOME}/jobs?cursor=x")["code"] == "invalid_arguments"
    assert http.problem(422, "POST", f"{HOME}/jobs", json={**ORDER, "after": 1, "at": "2030-01-01T00:00:00Z"})


def test_a_schedule_from_its_creation_to_its_end(http: Http) -> None:
    made = http("POST", f"{HOME}/schedules", json={**NINE, "overlap": "buffer_one", "catch_up_window": "1h"})
    assert made.status_code == 201
    assert made.headers["etag"] == '"1"'
    assert http.ok("POST", f"{HOME}/schedules", json={**NINE, "overlap": "buffer_one", "catch_up_window": "1h"})
    assert http.problem(409, "POST", f"{HOME}/schedules", json=NINE)["code"] == "already_exists"

    path = f"{HOME}/schedules/s"
    changed = http("PATCH", path, json={"catch_up_window": None, "jitter": 30}, headers={"If-Match": '"1"'}).json()
    assert (changed["version"], changed["policies"]["overlap"]) == (2, "buffer_one")
    assert changed["policies"]["catchup_window"] == "365d"
    stale = http.problem(412, "PATCH", path, json={"note": "x"}, headers={"If-Match": '"1"'})
    assert stale["code"] == "version_conflict"
    http.problem(412, "PATCH", path, json={"note": "x"}, headers={"If-Match": "W/abc"})

    assert http.ok("POST", f"{path}/pause", json={"note": "rest"})["state"] == "paused"
    assert http.ok("POST", f"{path}/resume")["state"] == "active"
    run = http.ok("POST", f"{path}/trigger", json={"args": {"item": "z"}}, headers={"Idempotency-Key": "t"})
    assert http.ok("POST", f"{path}/trigger", headers={"Idempotency-Key": "t"})["nominal"] == run["nominal"]
    assert http.ok("GET", f"{HOME}/occurrences?schedule=s")["occurrences"]
    span = "start=2027-01-01T00:00:00Z&end=2027-01-03T00:00:00Z"
    assert len(http.ok("GET", f"{path}/times?{span}")) == 2
    assert "sentence" in http.ok("GET", f"{path}/explain?at=2027-01-01T09:00:00Z")
    assert http.ok("GET", f"{HOME}/audit?start=2026-01-01T00:00:00Z&end=2026-01-02T00:00:00Z")
    replaced = http.ok("PUT", path, json={"when": [{"crons": ["0 7 * * *"]}], **ORDER})
    assert replaced["policies"]["overlap"] == "skip"
    assert [each["id"] for each in http.ok("GET", f"{HOME}/schedules?status=active")["schedules"]] == ["s"]
    changes = {"do": "shop.order", "rename": {"n": "m"}, "function": "shop.order"}
    assert http.ok("POST", f"{HOME}/schedules/update-all", json=changes) == {"count": 0, "cursor": None}
    assert http.problem(422, "POST", f"{HOME}/schedules/update-all", json={})["code"] == "misuse"
    wrong = {"rename": {"item": "itme"}}
    assert "schedule 's': " in http.problem(422, "POST", f"{HOME}/schedules/update-all", json=wrong)["detail"]
    assert http.ok("POST", f"{HOME}/schedules/pause-all", json={"note": "n"}) == {"count": 1, "cursor": None}
    zoned = http.problem(422, "POST", f"{HOME}/schedules", json={"id": "z", "when": "0 9 * * *", "time_zone": "UTC"})
    assert zoned["detail"].startswith("body.time_zone: the zone belongs to the times, as in when: {crons: ")
    again = {"id": "r", "when": "@daily", **ORDER, "retry": 3}
    assert http.ok("POST", f"{HOME}/schedules?dry_run=true", json=again)["target"]["retry"][0] == 3
    assert http.ok("POST", f"{HOME}/schedules/resume-all", json={}) == {"count": 1, "cursor": None}
    http.problem(412, "DELETE", path, headers={"If-Match": '"1"'})
    assert http("DELETE", path).status_code == 204
    assert http.problem(404, "GET", path)["code"] == "schedule_not_found"
    assert http.ok("POST", f"{HOME}/schedules/delete-all", json={}) == {"count": 0, "cursor": None}


def test_other_arguments_alone_keep_the_function_that_another_request_has_just_given(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    @http.app.mutation(name="shop.offer")
    def offer(ctx: MutationCtx, item: str) -> None: ...

    http.ok("POST", f"{HOME}/schedules", json=NINE)
    usual = Caller.change

    async def after_another(self: Caller, *args: Any, **options: Any) -> Any:
        await self.access.schedules.update("s", do=offer.with_args("y"))
        return await usual(self, *args, **options)

    monkeypatch.setattr(Caller, "change", after_another)
    changed = http.ok("PATCH", f"{HOME}/schedules/s", json={"args": {"item": "z"}})

    assert (changed["target"]["function"], changed["target"]["input"]) == ("shop.offer", {"item": "z"})


def test_who_has_read_a_schedule_does_not_change_another_that_was_made_under_its_id(http: Http) -> None:
    path = f"{HOME}/schedules/s"
    read = http("POST", f"{HOME}/schedules", json=NINE).headers["etag"]
    http.ok("DELETE", path, headers={"If-Match": read})
    made = http("POST", f"{HOME}/schedules", json={**NINE, "when": "0 5 * * *"})
    assert made.headers["etag"] != read
    bodies = {"PATCH": {"json": {"note": "x"}}, "PUT": {"json": {"when": "0 7 * * *", **ORDER}}, "DELETE": {}}
    for method, more in bodies.items():
        for tag in (read, "1"):
            http.problem(412, method, path, headers={"If-Match": tag}, **more)
    assert http.ok("PATCH", path, json={"note": "x"}, headers={"If-Match": made.headers["etag"]})["note"] == "x"


def test_ids_with_a_slash_and_other_signs_are_reached(http: Http) -> None:
    for name, written in (("a/b", "a%2Fb"), ("a b?c#d", "a%20b%3Fc%23d"), ("ü", "%C3%BC"), ("%2F", "%252F")):
        http.ok("POST", f"{HOME}/schedules", json={**NINE, "id": name})
        assert http.ok("GET", f"{HOME}/schedules/{written}")["id"] == name
        assert http.ok("POST", f"{HOME}/schedules/{written}/pause")["id"] == name


@pytest.mark.parametrize("dots", [".", ".."])
def test_ids_that_no_address_can_hold_are_refused(http: Http, dots: str) -> None:
    """Clients take them for steps in the path, also as %2E."""
    found = http.problem(422, "POST", f"{HOME}/schedules", json={**NINE, "id": dots})
    assert (
        found["detail"] == f"a schedule cannot be called {dots!r}: addresses of the HTTP API cannot contain this name"
    )
    app = http.app
    for refused in (
        lambda: app.pools.set(dots, running=1),
        lambda: app.tenants.set(dots, jobs=1),
        lambda: app.tokens.create("t", tenant=dots),
        lambda: app.crons.add(dots, "every 5 minutes", app.functions.resolve("shop.secret")),
        lambda: app.mutation(name=dots)(lambda ctx: None),
        lambda: app.scripts.create(dots, "def main(ctx): pass", language="python"),
    ):
        with pytest.raises(Misuse, match="addresses"):
            refused()


def test_times_are_previewed_and_wrong_ones_refused(http: Http) -> None:
    span = {"start": "2026-03-28T00:00:00Z", "end": "2026-03-31T00:00:00Z"}
    for when in ("0 9 * * *", "every day at 9am", {"crons": ["0 9 * * *"]}, ["0 9 * * *", {"crons": ["0 9 * * *"]}]):
        assert len(http.ok("POST", f"{HOME}/schedules/preview", json={"when": when, **span})) == 3
    for wrong in ("61 * * * *", {"cron": 1}, {}, [["x"]], "sometimes"):
        reply = http("POST", f"{HOME}/schedules/preview", json={"when": wrong, **span})
        assert reply.status_code in (200, 422)


def test_a_backfill_is_planned_started_and_canceled(http: Http) -> None:
    http.ok("POST", f"{HOME}/schedules", json={**NINE, "paused": True})
    span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-10T00:00:00Z", "overlap": "buffer_all"}
    plan = http.ok("POST", f"{HOME}/schedules/s/backfill-plan", json=span)
    assert len(plan["times"]) == 9
    both = http.ok("POST", f"{HOME}/backfill-plans", json={**span, "choice": {"id_contains": "s"}})
    assert [(each["schedule"], each["count"], each["token"]) for each in both["plans"]] == [("s", 9, plan["token"])]
    assert both["cursor"] is None
    other = {**span, "token": plan["token"], "end": "2026-01-11T00:00:00Z"}
    assert http.problem(412, "POST", f"{HOME}/schedules/s/backfills", json=other)["code"] == "version_conflict"
    started = http.ok("POST", f"{HOME}/schedules/s/backfills", json={**span, "token": plan["token"]})
    path = f"{HOME}/schedules/s/backfills/{started['id']}"
    assert http.ok("GET", path)["id"] == started["id"]
    assert http.ok("POST", f"{path}/cancel")
    assert http.problem(404, "GET", f"{HOME}/schedules/s/backfills/none")["code"] == "not_found"
    listed = f"{HOME}/schedules/s/backfills"
    assert [each["id"] for each in http.ok("GET", f"{listed}?limit=1")] == [http.ok("GET", listed)[0]["id"]]
    assert http.problem(422, "GET", f"{listed}?limit=0")["code"] == "invalid_request"


def test_a_run_from_its_start_to_its_end(http: Http) -> None:
    body = {"function": "shop.fulfil", "args": {"order_id": "7"}, "key": "order-7", "attributes": {"customer": "ada"}}
    run = http.ok("POST", f"{HOME}/workflows", json=body)["id"]
    assert http.ok("POST", f"{HOME}/workflows", json=body)["id"] == run
    path = f"{HOME}/workflows/order-7"
    assert http("GET", f"{path}/result?wait=0.05").status_code == 202
    assert http.ok("POST", f"{path}/pause") == {"changed": True}
    assert http.ok("POST", f"{path}/resume") == {"changed": True}
    http.ok("POST", f"{path}/signal", json={"event": "paid", "value": 12})
    with Engine(http.app):
        ended = http("GET", f"{HOME}/workflows/{run}/result?wait=20")
    assert (ended.status_code, ended.json()["result"]) == (200, "12")
    assert http.ok("GET", f"{HOME}/workflows/{run}/history")["events"]
    assert http.ok("GET", f"{HOME}/workflows/{run}/children") == []
    for wrong in ("attribute=customer", "attribute=customer=ada&attribute=customer=ben"):
        assert http.problem(422, "GET", f"{HOME}/workflows?{wrong}")["code"] == "misuse"
    assert not http.ok("GET", f"{HOME}/workflows?attribute=customer=ada&attribute=paid=true")["runs"]
    found = http.ok("GET", f"{HOME}/workflows?function=shop.fulfil&state=success&attribute=customer=ada")
    assert [each["id"] for each in found["runs"]] == [run]
    gone = http.problem(409, "POST", f"{HOME}/workflows/{run}/signal", json={"event": "paid"})
    assert gone["code"] == "run_not_open"

    again = http.ok("POST", f"{HOME}/workflows/{run}/restart")["id"]
    assert http.ok("POST", f"{HOME}/workflows/{again}/cancel") == {"changed": True}
    third = http.ok("POST", f"{HOME}/workflows", json={**body, "key": "other"})["id"]
    assert http.ok("POST", f"{HOME}/workflows/{third}/terminate") == {"changed": True}
    assert http.problem(422, "POST", f"{HOME}/workflows", json={**body, "function": "shop.order"})["code"] == "misuse"


def test_many_runs_are_restarted_piece_by_piece(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_all, "RESTART_PAGE", 2)
    body = {"function": "shop.fulfil", "args": {"order_id": "7"}, "attributes": {"customer": "ada"}}
    runs = [http.ok("POST", f"{HOME}/workflows", json=body)["id"] for _ in range(3)]
    for each in runs:
        http.ok("POST", f"{HOME}/workflows/{each}/terminate")
    path, chosen = f"{HOME}/workflows/restart-all", {"state": ["canceled"], "attribute": ["customer=ada"]}

    assert http.ok("POST", path, json={}) == {"count": 0, "cursor": None}, "failed ones are meant"
    assert http.ok("POST", path, json={**chosen, "function": "shop.other"})["count"] == 0
    first = http.ok("POST", path, json={**chosen, "from_failed": True, "seconds": 0})
    assert first["count"] < 3 and first["cursor"]
    rest = http.ok("POST", path, json={**chosen, "from_failed": True, "cursor": first["cursor"]})
    assert (first["count"] + rest["count"], rest["cursor"]) == (3, None)

    again = [http.ok("GET", f"{HOME}/workflows/{each}")["retried_as"] for each in runs]
    assert {http.ok("GET", f"{HOME}/workflows/{each}")["state"] for each in again} == {"pending"}
    both = http.problem(422, "POST", path, json={"step": 1, "from_failed": True})
    assert (both["code"], "give only one" in both["detail"]) == ("misuse", True)
    line = http.app.audit_log.list(action="workflow.restart_all").changes[0]
    assert '"from_failed":true' in line.target
    single = http.ok("POST", f"{HOME}/workflows/{again[0]}/restart", json={"from_failed": True})
    assert http.ok("GET", f"{HOME}/workflows/{again[0]}")["retried_as"] == single["id"]


def test_failed_jobs_that_were_not_run_again_are_listed_and_retried(http: Http) -> None:
    jobs = [http.app.scheduler.run_after(0, "shop.fail", how="plain") for _ in range(2)]
    with Engine(http.app) as engine:
        for each in jobs:
            engine.wait(each)
    again = http.ok("POST", f"{HOME}/jobs/{jobs[0]}/retry")["id"]

    left = http.ok("GET", f"{HOME}/jobs?not_retried=true")["jobs"]
    assert [each["id"] for each in left] == [jobs[1]]
    assert http.ok("GET", f"{HOME}/jobs/{jobs[0]}")["retried_as"] == again
    assert http.ok("GET", f"{HOME}/jobs/count?not_retried=true")["number"] == 1
    assert http.ok("GET", f"{HOME}/jobs/counts")["shop.fail"]["not_retried"] == 1
    assert http.problem(422, "GET", f"{HOME}/jobs?not_retried=true&state=canceled")["code"] == "misuse"
    changed = http.problem(409, "POST", f"{HOME}/jobs/retry-all", json={"expect": 2})
    assert changed["detail"] == "1 jobs are chosen now, not 2; none was changed"
    assert http.ok("POST", f"{HOME}/jobs/retry-all", json={"expect": 1})["count"] == 1
    assert http.ok("GET", f"{HOME}/jobs?not_retried=true")["jobs"] == []


def test_workflow_types_are_paused_and_resumed(http: Http) -> None:
    path = "/api/v1/workflow-types"
    assert [each["name"] for each in http.ok("GET", path)] == ["shop.fulfil"]
    assert http.ok("POST", f"{path}/shop.fulfil/pause")["status"] == "paused"
    body = {"function": "shop.fulfil", "args": {"order_id": "7"}}
    assert http.problem(409, "POST", f"{HOME}/workflows", json=body)["code"] == "workflow_inactive"
    assert http.ok("POST", f"{path}/shop.fulfil/resume")["status"] == "active"
    http.problem(422, "POST", f"{path}/shop.fulfil/__class__")


def test_pools_and_tenants_have_limits(http: Http) -> None:
    assert http.ok("PATCH", "/api/v1/pools/mail", json={"running": 3})["limits"]["running"] == 3
    assert http.ok("POST", "/api/v1/pools/mail/pause")["limits"]["paused"] is True
    assert http.ok("POST", "/api/v1/pools/mail/resume")["limits"]["paused"] is False
    assert http.ok("PATCH", "/api/v1/pools/mail", json={"running": None})["limits"]["running"] is None
    assert http.ok("GET", "/api/v1/pools/mail")["pool"] == "mail"
    assert "default" in [each["pool"] for each in http.ok("GET", "/api/v1/pools")]
    http.problem(422, "PATCH", "/api/v1/pools/mail", json={"running": -1})

    assert http.ok("PATCH", "/api/v1/tenants/acme", json={"jobs": 1})["limits"]["jobs"] == 1
    acme = http.by("edit", tenant="acme")
    acme.ok("POST", "/api/v1/tenants/acme/jobs", json={**ORDER, "after": 60})
    full = acme.problem(429, "POST", "/api/v1/tenants/acme/jobs", json={**ORDER, "after": 60})
    assert full["code"] == "quota_exceeded"
    assert acme.ok("GET", "/api/v1/tenants/acme")["usage"]["jobs"] == 1
    acme.problem(403, "PATCH", "/api/v1/tenants/acme", json={"jobs": 5})
    assert [each["tenant"] for each in http.ok("GET", "/api/v1/tenants")] == ["acme"]


def test_the_state_of_a_tenant_has_the_workers_for_a_token_of_all_tenants(http: Http) -> None:
    """Real once: `evertick status --url ... --tenant T` said that no worker is alive."""
    write = http.app.environment.store.write
    write(lambda tx: tx.register_worker(worker(leased_until=Instant(http.app.environment.clock.now() + 60_000))))

    assert [each["id"] for each in http.ok("GET", f"{HOME}/status")["workers"]] == [ANN]
    assert http.by("read", tenant="default").ok("GET", f"{HOME}/status")["workers"] == []


def test_the_state_of_all_and_the_metrics(http: Http) -> None:
    http.ok("POST", f"{HOME}/jobs", json={**ORDER, "after": 60})
    assert http.ok("GET", "/api/v1/status")["queues"][0]["later"] == 1
    assert http.ok("GET", f"{HOME}/status")["workers"] == []
    assert http.ok("GET", "/api/v1/workers") == []
    assert "evertick_jobs{" in http("GET", "/metrics").text
    observers = list(http.app.counters.observers)
    http("GET", "/metrics")
    assert http.app.counters.observers == observers, "a request must not leave a counter behind"
    paths = http.ok("GET", "/openapi.json")["paths"]
    assert len(paths) > 50
    waiting = paths["/api/v1/tenants/{tenant}/workflows/{run_id}/result"]["get"]["responses"]
    assert (
        waiting["202"]["content"]["application/json"]["schema"]
        == waiting["200"]["content"]["application/json"]["schema"]
    )


def test_lines_of_logs_are_listed_across_functions(http: Http) -> None:
    job_id = http.ok("POST", f"{HOME}/jobs", json={"function": "shop.order", "args": {"item": "tea"}})["id"]
    line = AttemptLines(job_id, 1, [LogLine(0, Instant(5), "warning", "Dear")], DEFAULT_TENANT, "shop.order")
    http.app.environment.store.write(lambda transaction: transaction.add_logs([line], now=Instant(7)))

    page = http.ok("GET", f"{HOME}/logs", params={"level": "warning", "text": "dEAR", "request": job_id})
    [found] = page["lines"]

    assert (found["function"], found["job_id"], found["message"]) == ("shop.order", job_id, "Dear")
    assert http.ok("GET", f"{HOME}/logs", params={"level": "error"})["lines"] == []
    assert http.ok("GET", f"{HOME}/logs", params={"cursor": found["id"], "newest_first": "false"})["lines"] == []
    assert http.ok("GET", "/api/v1/tenants/other/logs")["lines"] == []
    assert http.problem(422, "GET", f"{HOME}/logs", params={"level": "loud"})["code"]
    assert http.problem(422, "GET", f"{HOME}/logs", params={"cursor": "x"})["code"] == "invalid_arguments"
    assert http.problem(404, "GET", f"{HOME}/logs", params={"request": f"job_{'0' * 28}"})["code"] == "job_not_found"


def test_schedules_are_listed_for_people_and_counted(http: Http) -> None:
    http.ok("POST", f"{HOME}/schedules", json=NINE)
    http.ok("POST", f"{HOME}/schedules", json={**NINE, "id": "t", "when": {"cron": "0 8 * * *", "tz": "Asia/Tokyo"}})
    http.ok("POST", f"{HOME}/schedules/s/pause", json={"note": "vendor outage"})

    page = http.ok("GET", f"{HOME}/schedule-details?sort=-id&limit=1")
    assert [(each["id"], each["expression"], each["strip"]) for each in page["schedules"]] == [("t", "0 8 * * *", [])]
    [rest] = http.ok("GET", f"{HOME}/schedule-details?sort=-id&cursor={page['cursor']}")["schedules"]
    assert (rest["id"], rest["pause"]["note"], rest["health"]) == ("s", "vendor outage", [])
    assert [each["id"] for each in http.ok("GET", f"{HOME}/schedules?time_zone=Asia/Tokyo")["schedules"]] == ["t"]
    counts = http.ok("GET", f"{HOME}/schedule-counts?time_zone=Asia/Tokyo")
    assert (counts["matching"], counts["paused"]) == ({"number": 1, "more": False}, {"number": 1, "more": False})
    assert http.problem(422, "GET", f"{HOME}/schedules?health=bad")
    assert http.problem(422, "GET", f"{HOME}/schedule-details?limit=101")
    days = http.ok("GET", f"{HOME}/schedules/t/days?start=2026-11-01&end=2026-11-03")
    assert [(each["day"], each["endings"]) for each in days["days"]] == [("2026-11-01", {}), ("2026-11-02", {})]
    plan = http.ok("GET", f"{HOME}/schedules/t/trigger-plan")
    assert {each["sentence"] for each in plan["effects"]} == {"Starts at once."}


def test_how_a_tenant_does(http: Http) -> None:
    http.ok("POST", f"{HOME}/schedules", json=NINE)
    made = http.ok("POST", f"{HOME}/jobs", json={**ORDER, "after": 0})["id"]

    overview = http.ok("GET", f"{HOME}/overview")
    assert [(each["name"], each["why"]) for each in overview["attention"]] == [("shop.order", "no worker is alive")]
    assert (overview["queued"][0]["jobs"], overview["alive"]) == ({"number": 1, "more": False}, 0)
    assert http.ok("GET", f"{HOME}/activity?span=1h")["minutes"] == []
    add_activity(http.app, "shop.order", ended=4, failed=1)
    [tens] = http.ok("GET", f"{HOME}/activity?span=1h&function=shop.order")["minutes"]
    assert (tens["ended"], tens["failed"]) == (4, 1)
    assert http.ok("GET", f"{HOME}/activity?function=shop.none")["minutes"] == []
    [tens] = http.ok("GET", f"{HOME}/activity?span=1h&pool=default")["minutes"]
    assert (tens["ended"], tens["failed"], tens["late_p99_ms"]) == (4, 1, 0)
    assert http.ok("GET", f"{HOME}/activity?pool=mail")["minutes"] == []
    assert "not both" in http.problem(422, "GET", f"{HOME}/activity?pool=mail&function=f")["detail"]
    assert sum(http.ok("GET", f"{HOME}/coming?span=24h")["starts"]) == 1
    assert [each["action"] for each in http.ok("GET", f"{HOME}/changes")] == ["schedule.created"]
    stats = http.ok("GET", f"{HOME}/function-stats")["functions"]
    assert [(each["name"], each["pending"]) for each in stats] == [("shop.order", 1)]
    assert [each["kind"] for each in http.ok("GET", f"{HOME}/search?text={made}")] == ["job"]
    assert http.problem(422, "GET", f"{HOME}/activity?span=3d")["code"] == "limit_exceeded"
