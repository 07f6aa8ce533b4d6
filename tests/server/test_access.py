"""Tokens over HTTP and in Python, and the audit log."""

import gc
import json
from datetime import timedelta

import pytest
from pydantic import BaseModel, SecretStr

from evertick import Step
from evertick.app.access_control.tokens import new_secret, presented
from evertick.base.errors import LimitExceeded, Misuse, NotFound, StorageFailed
from evertick.base.instants import Instant, to_datetime
from tests.server.conftest import HOME, Http


def test_a_secret_is_shown_once_and_kept_nowhere(http: Http) -> None:
    made = http.ok("POST", f"{HOME}/tokens", json={"name": "billing", "scope": "operate", "expires_after": "1h"})
    secret = made.pop("secret")
    assert http.ok("GET", f"{HOME}/tokens")["tokens"] == [made]
    kept = http.app.environment.store.read(lambda tx: tx.get_token(made["id"]))
    assert kept is not None
    assert secret not in str(kept)
    assert secret.split("_")[2] not in str(kept)
    assert secret not in str(http.ok("GET", f"{HOME}/audit-log"))
    assert Http(http.app, http.server, secret).ok("GET", f"{HOME}/me")["name"] == "billing"


def test_a_token_ends_when_it_is_revoked_rotated_or_over(http: Http) -> None:
    tokens = http.app.tokens
    first = tokens.create("a", tenant="acme", expires_after=None)
    user = Http(http.app, http.server, first.secret)
    user.ok("GET", "/api/v1/tenants/acme/jobs")

    again = http.ok("POST", f"/api/v1/tenants/acme/tokens/{first.id}/rotate")
    user.problem(401, "GET", "/api/v1/tenants/acme/jobs")
    user.secret = again["secret"]
    user.ok("GET", "/api/v1/tenants/acme/jobs")
    assert (again["tenant"], again["scope"], again["expires_at"]) == ("acme", "read", None)

    http.ok("POST", f"/api/v1/tenants/acme/tokens/{again['id']}/revoke")
    user.problem(401, "GET", "/api/v1/tenants/acme/jobs")
    with pytest.raises(Misuse, match="was revoked"):
        tokens.rotate(first.id)

    short = tokens.create("short", expires_after=timedelta(milliseconds=1))
    user.secret = short.secret
    while to_datetime(http.app.environment.clock.now()) <= (short.expires_at or short.created_at):
        pass
    user.problem(401, "GET", f"{HOME}/jobs")


def test_the_views_of_a_token_go_on_with_the_one_that_replaces_it(http: Http) -> None:
    token = http.ok("POST", f"{HOME}/tokens", json={"name": "board", "scope": "operate"})
    user = Http(http.app, http.server, token["secret"])
    view = {"page": "jobs", "name": "failing", "params": {"q": "failed"}}
    other = http.ok("POST", f"{HOME}/views", json=view)
    made = user.ok("POST", f"{HOME}/views", json=view)

    user.secret = http.ok("POST", f"{HOME}/tokens/{token['id']}/rotate")["secret"]
    assert user.ok("GET", f"{HOME}/views?page=jobs") == [made]
    assert http.ok("GET", f"{HOME}/views?page=jobs") == [other]
    user.ok("DELETE", f"{HOME}/views/{made['id']}")


def test_a_request_without_a_token_is_told_from_one_whose_token_has_ended(http: Http) -> None:
    made = http.app.tokens.create("a")
    http.app.tokens.revoke(made.id)
    ended = Http(http.app, http.server, made.secret).problem(401, "GET", f"{HOME}/jobs")
    missing = http.problem(401, "GET", f"{HOME}/jobs", headers={"Authorization": ""})
    assert "was revoked" in ended["detail"]
    assert missing["detail"].startswith("send a token: ")
    assert "EVERTICK_TOKEN" in missing["detail"]


def test_a_tilde_is_the_tenant_of_the_token(http: Http) -> None:
    acme, of_all = http.by("admin", "acme"), http.by("read")
    made = acme.ok("POST", "/api/v1/tenants/~/jobs", json={"function": "shop.order", "args": {"item": "x"}})
    found = acme.ok("GET", f"/api/v1/tenants/~/jobs/{made['id']}")
    assert found["tenant"] == acme.ok("GET", "/api/v1/tenants/~/me")["tenant"] == "acme"
    assert acme.ok("GET", "/api/v1/tenants/acme/jobs")["jobs"] == [found]
    assert of_all.ok("GET", "/api/v1/tenants/~/jobs")["jobs"] == of_all.ok("GET", f"{HOME}/jobs")["jobs"] == []
    of_all.problem(422, "GET", "/api/v1/doctor", params={"tenant": "~"})


def test_a_token_that_does_not_reach_a_tenant_says_which_one_it_is_for(http: Http) -> None:
    user = http.by("admin", "acme")
    other = user.problem(403, "GET", f"{HOME}/jobs")
    assert other["detail"] == "this token is for the tenant 'acme', and does not reach the tenant 'default'"
    fleet = user.problem(403, "GET", "/api/v1/workers")
    assert fleet["detail"] == "this token is for the tenant 'acme', and does not reach what belongs to no tenant"


def test_an_address_that_is_none_names_nothing_that_the_token_may_not_read_without_saying_so(http: Http) -> None:
    user = http.by("admin", "acme")
    user.problem(403, "GET", "/openapi.json")
    for found in (user.problem(404, "GET", "/api/v1/none"), user.problem(405, "DELETE", "/health")):
        assert "GET /openapi.json lists what there is, but not for a token of one tenant" in found["detail"]


def test_when_a_token_was_used_is_noted(http: Http) -> None:
    http.ok("GET", f"{HOME}/jobs")
    [root] = http.ok("GET", "/api/v1/tokens")["tokens"]
    assert root["last_used_at"] is not None


def test_a_use_that_cannot_be_noted_is_no_error_of_its_own(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Real once: on a full disk each request left a task whose exception was never looked at."""

    async def full(*_: object, **__: object) -> None:
        raise StorageFailed("the disk is full")

    monkeypatch.setattr(type(http.app.environment.executors), "write", full)
    http.ok("GET", f"{HOME}/jobs")
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_an_admin_of_a_tenant_makes_tokens_of_that_tenant_alone(http: Http) -> None:
    admin = http.by("admin", tenant="acme")
    made = admin.ok("POST", "/api/v1/tenants/acme/tokens", json={"name": "x", "scope": "admin"})
    assert made["tenant"] == "acme"
    admin.problem(403, "POST", "/api/v1/tokens", json={"name": "x", "scope": "admin"})
    [root, *_] = http.ok("GET", "/api/v1/tokens")["tokens"]
    admin.problem(404, "POST", f"/api/v1/tenants/acme/tokens/{root['id']}/revoke")


def test_every_change_is_in_the_audit_log_with_what_was_before(http: Http) -> None:
    body = {"id": "s", "when": "0 9 * * *", "function": "shop.order", "args": {"item": "x"}}
    http.ok("POST", f"{HOME}/schedules", json=body)
    operator = http.by("operate", tenant="default")
    operator.ok("POST", f"{HOME}/schedules/s/pause", json={"note": "rest"})
    http.ok("PATCH", f"{HOME}/schedules/s", json={"note": "new"})
    http.ok("DELETE", f"{HOME}/schedules/s")
    http.ok("PATCH", "/api/v1/pools/mail", json={"running": 3})

    changes = http.ok("GET", f"{HOME}/audit-log")["changes"]
    assert [(each["action"], each["actor"], each["target"]) for each in changes] == [
        ("schedule.delete", "token root", "s"),
        ("schedule.update", "token root", "s"),
        ("schedule.pause", "token operate token", "s"),
        ("schedule.create", "token root", "s"),
    ]
    update = changes[1]
    assert (update["before"]["note"], update["after"]["note"]) == ("rest", "new")
    assert changes[0]["after"] is None

    newest = http.ok("GET", "/api/v1/audit-log?limit=1")
    assert newest["changes"][0]["action"] == "pool.set"
    following = http.ok("GET", f"/api/v1/audit-log?limit=10&cursor={newest['cursor']}")
    assert [each["id"] for each in following["changes"]] == [each["id"] for each in changes]


def test_the_audit_log_names_a_run_by_its_key_and_has_what_was_sent_to_it(http: Http) -> None:
    class Card(BaseModel):
        owner: str
        number: SecretStr

    @http.app.workflow(name="shop.pays", events={"card": Card})
    async def pays(step: Step) -> None:
        await step.wait_for("card")

    new = {"function": "shop.fulfil", "args": {"order_id": "7"}}
    run = http.ok("POST", f"{HOME}/workflows", json=new | {"key": "order 7"})["id"]
    for name in (run, "order 7"):  # the dashboard knows the id, people the key
        event = {"event": "paid", "value": {"amount": 12}, "key": "once"}
        http.ok("POST", f"{HOME}/workflows/{name}/signal", json=event, headers={"Idempotency-Key": name})
    http.ok("POST", f"{HOME}/workflows/{run}/withdraw", json={"event": "paid"})
    for action in ("pause", "resume", "cancel", "restart"):
        http.ok("POST", f"{HOME}/workflows/{run}/{action}")
    changes = http.ok("GET", f"{HOME}/audit-log?target=order")["changes"][::-1]
    signals = [("workflow.signal", "order 7 paid"), ("workflow.signal", "order 7 paid")]
    assert [(each["action"], each["target"]) for each in changes] == [
        *signals, ("workflow.withdraw", "order 7 paid"),
        *((f"workflow.{each}", "order 7") for each in ("pause", "resume", "cancel", "restart")),
    ]  # fmt: skip
    assert changes[0]["before"] is None
    assert changes[0]["after"] == {"run": run, "event": "paid", "key": "once", "value": {"amount": 12}}

    other = http.ok("POST", f"{HOME}/workflows", json={"function": "shop.pays", "args": {}})["id"]
    card = {"event": "card", "value": {"owner": "ada", "number": "4000-0012"}}
    http.ok("POST", f"{HOME}/workflows/{other}/signal", json=card)
    [line] = http.ok("GET", f"{HOME}/audit-log?target={other}")["changes"]
    assert line["after"]["value"] == {"owner": "ada", "number": "**********"}, "as it is stored"
    assert "4000-0012" not in json.dumps(http.ok("GET", f"{HOME}/audit-log"))


def test_a_change_that_fails_leaves_no_line(http: Http) -> None:
    http.problem(404, "POST", f"{HOME}/schedules/none/pause")
    assert http.ok("GET", f"{HOME}/audit-log")["changes"] == []


def test_the_history_of_a_schedule_names_the_token(http: Http) -> None:
    body = {"id": "s", "when": "0 9 * * *", "function": "shop.order", "args": {"item": "x"}}
    http.ok("POST", f"{HOME}/schedules", json=body)
    assert http.ok("GET", f"{HOME}/schedules/s/history")[0]["actor"] == "token root"


def test_mistyped_secrets_are_told_from_others_without_the_database() -> None:
    text, digest = new_secret("token_" + "0" * 28)
    assert presented(text) == ("token_" + "0" * 28, digest)
    for wrong in (text[:-1], text + "a", text[:-1] + "_", text.replace("evt", "evx"), "", "Bearer", text[:40] + "é"):
        assert presented(wrong) is None
    swapped = text[:34] + text[35] + text[34] + text[36:]
    assert swapped == text or presented(swapped) is None


def test_what_cannot_be_a_token(http: Http) -> None:
    tokens = http.app.tokens
    for wrong in ("", "a\nb", "x" * 201, 5):
        with pytest.raises(Misuse):
            tokens.create(wrong)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="read, operate, edit, admin"):
        tokens.create("x", scope="root")
    with pytest.raises(Misuse, match="ten years"):
        tokens.create("x", expires_after=timedelta(days=5_000))
    with pytest.raises(NotFound):
        tokens.get("token_" + "0" * 28)
    with pytest.raises(LimitExceeded):
        tokens.list(limit=0)
    with pytest.raises(Misuse):
        tokens.list(cursor="job_" + "0" * 28)
    with pytest.raises(Misuse):
        http.app.audit_log.list(cursor="token_" + "0" * 28)
    with pytest.raises(LimitExceeded):
        http.app.audit_log.list(limit=1_001)


def test_tokens_are_listed_page_by_page(http: Http) -> None:
    made = [http.app.tokens.create(f"t{n}", tenant="acme").id for n in range(5)]
    path, cursor, found = "/api/v1/tenants/acme/tokens?limit=2", "", []
    while cursor is not None:
        page = http.ok("GET", path + (f"&cursor={cursor}" if cursor else ""))
        found += [each["id"] for each in page["tokens"]]
        cursor = page["cursor"]
    assert found == made


def test_old_lines_of_the_audit_log_are_removed(http: Http) -> None:
    http.ok("PATCH", "/api/v1/pools/mail", json={"running": 3})
    store = http.app.environment.store
    now = http.app.environment.clock.now()
    assert store.write(lambda tx: tx.prune_audit(before=Instant(now - 1_000), limit=10)) == 0
    assert store.write(lambda tx: tx.prune_audit(before=Instant(now + 1_000), limit=10)) == 1
    assert http.ok("GET", "/api/v1/audit-log")["changes"] == []


def test_the_audit_log_is_filtered(http: Http) -> None:
    for name in ("s", "t"):
        http.ok(
            "POST",
            f"{HOME}/schedules",
            json={"id": name, "when": "0 9 * * *", "function": "shop.order", "args": {"item": "x"}},
        )
        http.ok("POST", f"{HOME}/schedules/{name}/pause", json={})

    def found(query: str) -> list[tuple[str, str]]:
        changes = http.ok("GET", f"{HOME}/audit-log?{query}")["changes"]
        return [(each["action"], each["target"]) for each in changes]

    assert found("action=schedule.pause") == [("schedule.pause", "t"), ("schedule.pause", "s")]
    assert found("target=s") == [("schedule.pause", "s"), ("schedule.create", "s")]
    assert found("action=schedule.pause&target=t") == [("schedule.pause", "t")]
    assert found("actor=none") == found("end=2020-01-01T00:00:00Z") == found("start=2100-01-01T00:00:00Z") == []
    assert len(found("start=2020-01-01T00:00:00Z")) == 4
    page = http.ok("GET", f"{HOME}/audit-log?action=schedule.pause&limit=1")
    assert found(f"action=schedule.pause&limit=1&cursor={page['cursor']}") == [("schedule.pause", "s")]
    assert http.problem(422, "GET", f"{HOME}/audit-log?who=ana")
