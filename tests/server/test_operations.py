"""Operations are declared once: their routes, requests and calls on the command line derive from the declaration."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request

from evertick.api.jobs import JobView
from evertick.app.documents.browsing import AnyData, DataOperations
from evertick.app.jobs.api import AnyJobs
from evertick.app.jobs.operations import JobIdOrKey, JobOperations
from evertick.app.limits.pools import AnyPools, PoolOperations
from evertick.app.operations import Blocking, Endpoint, Operation, Parameter, http_operations, writes
from evertick.app.transacting import Work
from evertick.base.instants import MINUTE_MS, Instant, from_datetime, to_datetime
from evertick.base.records.access import Scope
from evertick.cli.sessions.base import Access, OnDatabase
from evertick.client.calls import Call, FleetRequests, RemoteOperations, Requests
from evertick.client.groups import AsyncData, AsyncJobs, Data, Jobs, Pools
from evertick.errors import Misuse
from evertick.server.application import described
from evertick.server.callers import Caller, Routes, add_routes, tenant_routes
from evertick.server.operations import CallerOperations, add_operations
from evertick.server.routes.data import routes as data_routes
from evertick.server.routes.fleet import routes as fleet_routes
from evertick.server.routes.jobs import CallerJobs
from evertick.server.routes.jobs import routes as job_routes
from evertick.store.transaction.transaction import Transaction
from tests.server.conftest import HOME, Http
from tests.server.test_scopes import scope_of


class PostponableJobs(JobOperations):
    """Jobs with one operation more."""

    __slots__ = ()

    @writes(Endpoint("POST", "/jobs/{job_id}/postpone", Scope.OPERATE))
    def postpone(
        self, job_id: JobIdOrKey, *, minutes: Annotated[int, Parameter(ge=1, le=60, description="How much later.")] = 5
    ) -> Work[JobView]:
        """Let a pending job run some minutes later.

        Raises JobNotFound, JobNotPending.
        """

        def work(transaction: Transaction) -> JobView:
            due_at = from_datetime(self.get(job_id)(transaction).due_at) + minutes * MINUTE_MS
            return self.reschedule(job_id, to_datetime(Instant(due_at)))(transaction)

        return work


class CallerPostponableJobs(CallerOperations[PostponableJobs], PostponableJobs):
    """Those jobs in the name of a caller."""


class RemotePostponableJobs(RemoteOperations, Blocking[Requests], PostponableJobs):
    """Those jobs as a client has them."""


class RemoteAccess:
    """What `Client` has, sent to a server in this process."""

    def __init__(self, http: Http) -> None:
        def send(call: Call[Any]) -> Any:
            body = {} if call.body is None else {"json": call.body}
            found = http.ok(call.method, call.path, params=dict(call.query), headers=call.headers, **body)
            return call.read(found)

        self.send: Any = send
        self.jobs: AnyJobs[object] = Jobs(Requests(HOME), self.send, self.send)
        self.data: AnyData[object] = Data(Requests(HOME), self.send, self.send)
        self.pools: AnyPools[object] = Pools(FleetRequests(), self.send, self.send)


def with_postpone(http: Http) -> Http:
    """A server that has the operation, too."""

    def of_caller(caller: Caller, request: Request) -> CallerPostponableJobs:
        jobs = caller.access.jobs
        known = {each.name: getattr(jobs.operations, each.name) for each in fields(JobOperations)}
        return CallerPostponableJobs(caller, request, jobs.with_operations(PostponableJobs(**known)))

    routes = tenant_routes("jobs")
    add_operations(routes, PostponableJobs, of_caller)
    add_routes(http.server.api, [routes])
    return http


def test_an_operation_that_is_declared_once_has_a_route_and_a_call_of_the_client(http: Http) -> None:
    with_postpone(http)
    job_id = http.app.scheduler.run_after(60, "shop.order", item="x")
    due_at = http.app.jobs.get(job_id).due_at

    moved = http.ok("POST", f"{HOME}/jobs/{job_id}/postpone", json={"minutes": 10})
    assert JobView.model_validate(moved).due_at == due_at + timedelta(minutes=10)
    assert http.ok("POST", f"{HOME}/jobs/{job_id}/postpone")["id"] == job_id

    remote = RemoteAccess(http)
    jobs = RemotePostponableJobs(Requests(HOME), remote.send, remote.send)
    assert jobs.postpone(job_id, minutes=7).due_at == due_at + timedelta(minutes=10 + 5 + 7)


def test_a_declared_operation_refuses_what_its_declaration_excludes(http: Http) -> None:
    with_postpone(http)
    job_id = http.app.scheduler.run_after(60, "shop.order", item="x")
    path = f"{HOME}/jobs/{job_id}/postpone"

    refused = http.problem(422, "POST", path, json={"minutes": 70})
    assert (refused["code"], refused["errors"][0]["at"]) == ("invalid_request", "body.minutes")
    assert "minutes" in http.problem(422, "POST", path, json={"hours": 1})["detail"]
    assert http.by("read").problem(403, "POST", path)["code"] == "not_allowed"
    assert http.problem(404, "POST", f"{HOME}/jobs/none/postpone")["code"] == "job_not_found"
    assert http.ok("GET", f"{HOME}/audit-log")["changes"] == []


def test_a_declared_operation_is_in_the_audit_log_and_in_the_description(http: Http) -> None:
    with_postpone(http)
    job_id = http.app.scheduler.run_after(60, "shop.order", item="x")
    http.by("operate", tenant="default").ok("POST", f"{HOME}/jobs/{job_id}/postpone", json={"minutes": 10})

    [change] = http.ok("GET", f"{HOME}/audit-log")["changes"]
    assert (change["action"], change["target"], change["actor"]) == ("job.postpone", job_id, "token operate token")
    before, after = (datetime.fromisoformat(change[each]["due_at"]) for each in ("before", "after"))
    assert after - before == timedelta(minutes=10)

    shown = described(http.server.api)["paths"]["/api/v1/tenants/{tenant}/jobs/{job_id}/postpone"]["post"]
    assert shown["operationId"] == "postpone_job"
    assert shown["description"].startswith("Let a pending job run some minutes later.")
    assert "Problems: `job_not_found`, `job_not_pending`." in shown["description"]


SUBJECTS: list[tuple[type, Routes, set[str]]] = [
    (JobOperations, job_routes, {"schedule_job"}),
    (DataOperations, data_routes, set()),
    (PoolOperations, fleet_routes, {"get_status", "list_workers", "examine", "list_tenants", "change_tenant"}),
]


@pytest.mark.parametrize(("kind", "routes", "by_hand"), SUBJECTS)
def test_every_operation_has_its_route(kind: type, routes: Routes, by_hand: set[str]) -> None:
    declared = {
        each.endpoint.operation_id: (each.endpoint.method, each.endpoint.path, each.endpoint.scope)
        for each in http_operations(kind)
    }
    served = {
        str(route.operation_id): (*route.methods, route.path.removeprefix(routes.prefix), scope_of(route))
        for route in routes.routes
        if isinstance(route, APIRoute)
    }
    assert declared == {name: place for name, place in served.items() if name not in by_hand}


@pytest.mark.parametrize("operation", http_operations(JobOperations), ids=lambda each: each.name)
def test_an_operation_on_jobs_is_called_alike_by_python_a_client_and_the_command_line(
    http: Http, operation: Operation[Any, Any]
) -> None:
    for kind in (AsyncJobs, CallerJobs):
        assert callable(getattr(kind, operation.name))

    accesses: list[Access] = [http.app, RemoteAccess(http), OnDatabase(http.app.environment.store)]
    results = []
    for access in accesses:
        job_id = http.app.scheduler.run_after(3_600, "shop.order", item="x")
        if operation.name == "retry":
            http.app.jobs.cancel(job_id)
        known = {"job_id": job_id, "at": datetime.now(UTC) + timedelta(hours=1)}
        given = {each.name: known[each.name] for each in operation.arguments if each.name in known}
        results.append(getattr(access.jobs, operation.name)(**given))
    assert len({type(each) for each in results}) == 1


@pytest.mark.parametrize("operation", http_operations(DataOperations), ids=lambda each: each.name)
def test_an_operation_on_documents_is_called_alike_by_python_a_client_and_the_command_line(
    http: Http, operation: Operation[Any, Any]
) -> None:
    assert callable(getattr(AsyncData, operation.name))

    known = {"table": "orders", "document_id": http.app.call("shop.order", item="x")}
    given = {each.name: known[each.name] for each in operation.arguments if each.name in known}
    accesses: list[Access] = [http.app, RemoteAccess(http), OnDatabase(http.app.environment.store)]
    python, remote, local = (getattr(access.data, operation.name)(**given) for access in accesses)
    assert python == remote == local


@pytest.mark.parametrize("action", ["cancel", "retry", "run-now"])
def test_a_change_of_many_refuses_an_empty_list_of_states(http: Http, action: str) -> None:
    job_id = http.app.scheduler.run_after(60, "shop.order", item="x")
    name = f"{action.replace('-', '_')}_all"

    refused = http.problem(422, "POST", f"{HOME}/jobs/{action}-all", json={"state": []})
    assert (refused["code"], "state= names no state" in refused["detail"]) == ("misuse", True)
    for access in (http.app, RemoteAccess(http)):
        with pytest.raises(Misuse, match="state= names no state"):
            getattr(access.jobs, name)(state=[])
    assert http.app.jobs.get(job_id).state == "pending"


def test_clients_list_the_newest_jobs_first_as_python_does(http: Http) -> None:
    ids = [http.app.scheduler.run_after(60 + number, "shop.order", item="x") for number in range(3)]

    accesses: list[Access] = [http.app, RemoteAccess(http)]
    for access in accesses:
        assert [job.id for job in access.jobs.list().jobs] == ids[::-1]
        assert [job.id for job in access.jobs.list(newest_first=False).jobs] == ids
    assert [job["id"] for job in http.ok("GET", f"{HOME}/jobs")["jobs"]] == ids


def test_a_limit_that_is_not_given_stays_and_none_removes_one(http: Http) -> None:
    accesses: list[AnyPools[Any]] = [http.app.pools, RemoteAccess(http).pools]
    for pools in accesses:
        pools.set("mail", running=3, per_key=1)
        pools.set("mail", running=None, starts_per_minute=60)
        limits = pools.get("mail").limits
        assert (limits.running, limits.per_key, limits.starts_per_minute) == (None, 1, 60)
        assert pools.pause("mail").limits.paused
        assert not pools.resume("mail").limits.paused
        assert pools.delete("mail", force=True).limits.per_key is None
    actions = [each["action"] for each in http.ok("GET", "/api/v1/audit-log")["changes"]]
    assert actions == ["pool.delete", "pool.resume", "pool.pause", "pool.set", "pool.set"]
