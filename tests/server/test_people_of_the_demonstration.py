"""What people of the demonstration do is in the audit log as if a server had been asked for it."""

from typing import Any

from evertick import every
from evertick.api.access import AuditView
from evertick.demo.week import Person
from tests.server.conftest import HOME, Http, order_of

REQUESTS = (
    ("POST", f"{HOME}/schedules", {"id": "s", "when": "every hour", "function": "shop.order", "args": {"item": "x"}}),
    ("PATCH", f"{HOME}/schedules/s", {"note": "by hand"}),
    ("POST", f"{HOME}/schedules/s/pause", {"note": "why"}),
    ("POST", f"{HOME}/schedules/s/resume", {"note": "again"}),
    ("POST", f"{HOME}/schedules/s/trigger", {}),
    ("DELETE", f"{HOME}/schedules/s", None),
    ("POST", f"{HOME}/jobs/{{job}}/cancel", None),
    ("POST", f"{HOME}/jobs/{{job}}/retry", None),
    ("POST", f"{HOME}/workflows/{{run}}/cancel", None),
    ("PATCH", "/api/v1/pools/default", {"running": 3}),
    ("PATCH", "/api/v1/tenants/acme", {"jobs": 10}),
    ("POST", f"{HOME}/tokens", {"name": "metrics", "scope": "read", "expires_after": None}),
)  # fmt: skip


def test_their_changes_are_audited_as_requests_are(http: Http) -> None:
    app = http.app
    ids = _things(http)
    for method, path, body in REQUESTS:
        http.ok(method, path.format(**ids), **({} if body is None else {"json": body}))
    by_requests = _lines(http, "token root")

    ids, ada = _things(http), Person(app, "ada")
    ada.does("schedule.create", "s", when=every(hours=1), do=order_of(app))
    ada.edits("s", note="by hand")
    ada.does("schedule.pause", "s", "why")
    ada.does("schedule.resume", "s", "again")
    ada.does("schedule.trigger", "s")
    assert {line.actor for line in app.schedules.history("s", limit=4)} == {"ada"}
    ada.does("schedule.delete", "s")
    ada.does("job.cancel", ids["job"])
    ada.does("job.retry", ids["job"])
    ada.does("workflow.cancel", ids["run"])
    ada.does("pool.set", "default", running=3)
    ada.does("tenant.set", "acme", jobs=10)
    ada.makes_token("metrics", scope="read")

    assert _lines(http, "ada") == by_requests
    assert len(by_requests) == len(REQUESTS)


def _things(http: Http) -> dict[str, str]:
    """A job that waits, and a run of a workflow."""
    scheduler, resolve = http.app.scheduler, http.app.functions.resolve
    job = scheduler.run_after(3_600, resolve("shop.order"), item="x")
    run = http.app.workflows.start(resolve("shop.fulfil"), "order")  # type: ignore[arg-type]
    return {"job": job, "run": run}


def _lines(http: Http, actor: str) -> list[tuple[Any, ...]]:
    """What an actor has changed, without the ids and the moments."""
    return [_shape(line) for line in http.app.audit_log.list(actor=actor).changes]


def _shape(line: AuditView) -> tuple[Any, ...]:
    target = line.target.partition("_")[0]
    return line.tenant, line.action, target, _fields(line.before), _fields(line.after), bool(line.request)


def _fields(value: Any) -> Any:
    return sorted(value) if isinstance(value, dict) else type(value)
