"""Workflows: runs started, read, waited for, signaled and ended."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from evertick.api.workflows import (
    DetailedRunPage,
    RunDetails,
    RunHistory,
    RunPage,
    RunTimeline,
    RunView,
    WithdrawnEvent,
    WorkflowTypeView,
)
from evertick.app.bodies import Arguments, Body, Items, Time
from evertick.app.functions.function import Workflow
from evertick.app.functions.options import OnConflict
from evertick.app.transacting import Work
from evertick.app.workflows.operations import WorkflowOperations
from evertick.app.workflows.restart_all import restart_page
from evertick.app.workflows.withdrawing import withdraw
from evertick.base.errors import Misuse, WorkflowFailed
from evertick.base.records.access import Scope
from evertick.base.records.workflows import from_words
from evertick.server.bodies import Changed as ManyChanged
from evertick.server.bodies import Limit, Named, Piece, Scheduled
from evertick.server.callers import Called, Caller, Key, fleet_routes, reply, tenant_routes
from evertick.server.limits import take_longer
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")

routes = tenant_routes("workflows")
types = fleet_routes("workflows")

WAIT_S_MAX = 60.0
"""How long one request may wait for the end of a run."""


class NewRun(Body):
    """A run of a workflow."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"function": "shop.fulfil", "args": {"order_id": "7"}, "key": "order-7"}]}
    )

    function: str
    args: Arguments
    key: str | None = Field(None, description="An id of yours, which one unfinished run may have.")
    on_conflict: OnConflict | None = None
    priority: int | None = Field(None, ge=-1_000, le=1_000)
    attributes: dict[str, Any] | None = None


class Signal(Body):
    """An event for a run. Of several with one key the run sees the first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"event": "paid", "value": {"amount": 12}}]})

    event: str
    value: Any = None
    key: str | None = None


class Withdrawal(Body):
    """An event that is to be withdrawn. Where several of the name wait, `id` or `key` says which one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"event": "payed"}]})

    event: str
    id: str | None = Field(None, description="As `waiting_events` of the run has it.", max_length=100)
    key: str | None = None


class Restart(Body):
    """From which step a run is run again: its number or its name; from the beginning if none is given.

    `from_failed` is the step that it failed with; if its code failed behind a step, all outcomes are kept.
    """

    step: int | str | None = None
    from_failed: bool = False


class RunsChosen(Body):
    """Which runs are meant. Each member narrows the choice."""

    function: str | None = None
    state: Items[str] = Field(default_factory=list)
    prefix: str | None = None
    schedule: str | None = None
    started_from: Time | None = None
    started_until: Time | None = None
    occurrence_from: Time | None = Field(None, description="Runs of schedules for this nominal time or later.")
    occurrence_until: Time | None = None
    error: str | None = Field(None, min_length=1, max_length=1_000)
    roots: bool = Field(False, description="Only those that no other run has called with `step.workflow`.")
    attribute: Items[str] = Field(
        default_factory=list,
        description='`name=value`; 7 is a number, true a boolean, "7" in quotes a text. Of several all must match.',
    )
    not_retried: bool | None = Field(None, description="Failed runs that were not run again, without child runs.")

    def where(self) -> dict[str, Any]:
        """The filters that were given, without the workflow."""
        where: dict[str, Any] = {"state": self.state} if self.state else {}
        if self.roots:
            where["roots"] = True
        if self.attribute:
            where["attributes"] = from_words(self.attribute)
        names = ("prefix", "schedule", "started_from", "started_until", "occurrence_from", "occurrence_until", "error")
        for name in (*names, "not_retried"):
            if (value := getattr(self, name)) is not None:
                where[name] = value
        return where


class RunsAsked(RunsChosen):
    """A page of runs."""

    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=1_000)


class RestartAll(Piece, RunsChosen, Restart):
    """Runs that are to be restarted, and from where."""


class DetailedAsked(RunsAsked):
    """A page of runs for people."""

    limit: int = Field(100, ge=1, le=100)


class Changed(Body):
    """Whether the request changed something."""

    changed: bool


@routes.at("POST", "/workflows", Scope.EDIT, returns=Scheduled, status=201)
async def start_workflow(request: Request, caller: Called, new: NewRun, idempotency_key: Key = None) -> Response:
    """Start a run. With `Idempotency-Key` it is started once."""
    workflow = caller.function(new.function)
    if not isinstance(workflow, Workflow):
        raise Misuse(f"{new.function} is no workflow: schedule it as a job (run_after, POST .../jobs)")
    workflows = caller.access.workflows.using(
        key=new.key, on_conflict=new.on_conflict, priority=new.priority, attributes=new.attributes
    )
    positional, named = workflow.decode_args(workflow.encode_args((), new.args))
    work = await caller.once(request, workflows.operations.start(workflow, positional, named))
    return reply({"id": await workflows.write(work)}, status=201)


@routes.at("GET", "/workflows", Scope.READ, returns=RunPage)
async def list_runs(caller: Called, asked: Annotated[RunsAsked, Query()]) -> Response:
    """A page of runs, the newest first."""
    page = await caller.access.workflows.list(asked.function, limit=asked.limit, cursor=asked.cursor, **asked.where())
    return reply(page)


@routes.at("GET", "/workflow-details", Scope.READ, returns=DetailedRunPage)
async def list_run_details(caller: Called, asked: Annotated[DetailedAsked, Query()]) -> Response:
    """A page of runs for people, the newest first: each with what it waits for."""
    workflows = caller.access.workflows
    page = await workflows.list_detailed(asked.function, limit=asked.limit, cursor=asked.cursor, **asked.where())
    return reply(page)


@routes.at("GET", "/workflows/{run_id}", Scope.READ, returns=RunDetails)
async def get_run(caller: Called, run_id: Named) -> Response:
    """A run, by its id or its key, with what it waits for and the events that it has not taken."""
    return reply(await caller.access.workflows.get(run_id))


@routes.at("GET", "/workflows/{run_id}/result", Scope.READ, returns=RunView)
async def wait_for_run(
    request: Request, caller: Called, run_id: Named, wait: Annotated[float, Query(ge=0, le=WAIT_S_MAX)] = 0.0
) -> Response:
    """A run when it has ended, or after `wait` seconds as it is then (with the status 202)."""
    workflows = caller.access.workflows
    run = await workflows.read(workflows.operations.get(run_id))
    if not run.has_ended and wait:
        take_longer(wait)
        try:
            await request.app.state.hints.until_end(workflows.result(run.id, timeout=wait))
        except (TimeoutError, WorkflowFailed):
            pass
        run = await workflows.read(workflows.operations.get(run.id))
    return reply(run, status=200 if run.has_ended else 202)


@routes.at("GET", "/workflows/{run_id}/history", Scope.READ, returns=RunHistory)
async def get_run_history(caller: Called, run_id: Named) -> Response:
    """What a run has done, event by event."""
    return reply(await caller.access.workflows.history(run_id))


@routes.at("GET", "/workflows/{run_id}/timeline", Scope.READ, returns=RunTimeline)
async def get_run_timeline(
    caller: Called, run_id: Named, limit: Limit = 200, before: Annotated[int | None, Query(ge=1)] = None
) -> Response:
    """A run with its newest steps, or those before a step: attempts, arguments, results; and what it waits for."""
    return reply(await caller.access.workflows.timeline(run_id, limit=limit, before=before))


@routes.at("GET", "/workflows/{run_id}/children", Scope.READ, returns=list[RunView])
async def list_children(caller: Called, run_id: Named) -> Response:
    """The runs that a run has called."""
    return reply(await caller.access.workflows.children(run_id))


@routes.at("POST", "/workflows/{run_id}/signal", Scope.OPERATE, status=204)
async def signal_run(
    request: Request, caller: Called, run_id: Named, signal: Signal, idempotency_key: Key = None
) -> Response:
    """Send an event to a run. With `Idempotency-Key` it is sent once."""
    workflows = caller.access.workflows
    work = workflows.operations.send(run_id, signal.event, signal.value, key=signal.key)

    def described(transaction: Transaction) -> dict[str, Any]:
        job, value = work(transaction)
        return {"run": job.id, "event": signal.event, "key": signal.key, "value": json.loads(value)}

    named, name = _named(workflows.operations, run_id, described)
    audited = caller.audited(named, "workflow.signal", lambda _: f"{name()} {signal.event}")
    await workflows.write(await caller.once(request, lambda transaction: audited(transaction) and None))
    return Response(status_code=204)


@routes.at("POST", "/workflows/{run_id}/withdraw", Scope.OPERATE, returns=WithdrawnEvent)
async def withdraw_event(caller: Called, run_id: Named, event: Withdrawal) -> Response:
    """Take back an event that was sent to a run and that its code has not taken; returns it, with its value."""
    workflows = caller.access.workflows
    work = withdraw(workflows.operations, run_id, event.event, id=event.id, key=event.key)
    named, name = _named(workflows.operations, run_id, work)
    return reply(await caller.change(workflows, named, "workflow.withdraw", lambda _: f"{name()} {event.event}"))


def _named(operations: WorkflowOperations, run_id: str, work: Work[T]) -> tuple[Work[T], Callable[..., str]]:
    """The work, and once it is done how the audit log names the run: by its key if it has one."""
    names = [run_id]

    def named(transaction: Transaction) -> T:
        job = operations.job(transaction, run_id)
        names[:] = [job.key or job.id]
        return work(transaction)

    return named, lambda *_: names[0]


def _action(action: str, words: str) -> Callable[[Caller, str], Awaitable[Response]]:
    """A route that does something to a run, named as the operation; it tells whether anything changed."""

    async def change(caller: Called, run_id: Named) -> Response:
        workflows = caller.access.workflows
        work, name = _named(workflows.operations, run_id, getattr(workflows.operations, action)(run_id))
        before = workflows.operations.get(run_id)
        changed = await caller.change(workflows, work, f"workflow.{action}", name, before=before)
        return reply({"changed": changed})

    path, name = f"/workflows/{{run_id}}/{action}", f"{action}_run"
    return routes.at("POST", path, Scope.OPERATE, returns=Changed, name=name, description=words)(change)


cancel_run = _action("cancel", "Ask a run to end; its code can clean up.")
terminate_run = _action("terminate", "End a run at once; none of its code runs any more.")
pause_run = _action("pause", "Let a run take no further step until it is resumed.")
resume_run = _action("resume", "Let a paused run go on.")


@routes.at("POST", "/workflows/{run_id}/restart", Scope.OPERATE, returns=Scheduled, status=201)
async def restart_run(
    request: Request, caller: Called, run_id: Named, how: Restart | None = None, idempotency_key: Key = None
) -> Response:
    """Run a workflow again from one of its steps, as a new run."""
    workflows = caller.access.workflows
    operations = workflows.operations
    how = how or Restart()
    work, name = _named(operations, run_id, operations.restart(run_id, step=how.step, from_failed=how.from_failed))
    audited = caller.audited(work, "workflow.restart", name, before=operations.get(run_id))
    new_id = await workflows.write(await caller.once(request, audited))
    return reply({"id": new_id}, status=201)


@routes.at("POST", "/workflows/restart-all", Scope.OPERATE, returns=ManyChanged)
async def restart_runs(caller: Called, chosen: RestartAll) -> Response:
    """Restart all runs that are chosen: failed ones, unless `state` says otherwise, that were not run again."""
    workflows = caller.access.workflows
    page = partial(
        restart_page, workflows.operations, workflow=chosen.function, step=chosen.step, from_failed=chosen.from_failed,
        **chosen.where(),
    )  # fmt: skip
    return reply(await caller.change_many(workflows, page, "workflow.restart_all", chosen))


@types.at("GET", "/workflow-types", Scope.READ, returns=list[WorkflowTypeView])
async def list_workflow_types(caller: Called, deleted: bool = False) -> Response:
    """The workflows, and whether runs of them start; with `deleted`, also those that were deleted."""
    return reply(await caller.access.workflows.types.list(deleted=deleted))


@types.at("GET", "/workflow-types/{name}", Scope.READ, returns=WorkflowTypeView)
async def get_workflow_type(caller: Called, name: Named) -> Response:
    """A workflow, and whether runs of it start."""
    return reply(await caller.access.workflows.types.get(name))


@types.at("POST", "/workflow-types/{name}/{action}", Scope.ADMIN, returns=WorkflowTypeView)
async def change_workflow_type(caller: Called, name: Named, action: str) -> Response:
    """Pause, resume, deprecate or delete a workflow: `action` is one of these words."""
    if action not in ("pause", "resume", "deprecate", "delete"):
        raise Misuse(f"a workflow cannot be {action[:50]!r}; there are pause, resume, deprecate and delete")
    kinds = caller.access.workflows.types
    before = kinds.operations.get(name)
    work = getattr(kinds.operations, action)(name)
    return reply(await caller.change(kinds, work, f"workflow_type.{action}", name, before=before))
