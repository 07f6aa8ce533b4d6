"""`client.workflows`, as requests."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

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
from evertick.app.functions.function import Function
from evertick.app.transacting import Page
from evertick.app.workflows.choice import RunsWhere
from evertick.base.ids import JobId
from evertick.base.records.workflows import word_of
from evertick.client.calls import (
    Call,
    Requests,
    RequestsWithOptions,
    function_call,
    given,
    json_value,
    new_id,
    nothing,
    part,
    sent,
    sent_in_pieces,
)


class RunRequests(Requests):
    """What may be done with the runs below `home`."""

    @sent
    def get(self, run_id: JobId | str) -> Call[RunDetails]:
        """A run, by its id or its key; what it waits for, and the events that it has not taken. Raises JobNotFound."""
        return self._get(self._of(run_id), RunDetails)

    @sent
    def list(
        self,
        workflow: Function[..., Any] | str | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
        **where: Unpack[RunsWhere],
    ) -> Call[RunPage]:
        """A page of runs, the newest first; as `app.workflows.list`."""
        query = _chosen(function=workflow, limit=limit, cursor=cursor, **where)
        return self._get(f"{self._home}/workflows", RunPage, query)

    @sent
    def list_detailed(
        self, workflow: Function[..., Any] | str | None = None, *, limit: int = 100, cursor: str | None = None,
        **where: Unpack[RunsWhere],
    ) -> Call[DetailedRunPage]:  # fmt: skip
        """A page of runs for people; as `app.workflows.list_detailed`."""
        query = _chosen(function=workflow, limit=limit, cursor=cursor, **where)
        path = f"{self._home}/workflow-details"
        return self._get(path, DetailedRunPage, query)

    @sent
    def timeline(self, run_id: JobId | str, *, limit: int = 200, before: int | None = None) -> Call[RunTimeline]:
        """A run with its newest steps, or those before one. Raises JobNotFound."""
        query = given({"limit": limit, "before": before})
        return self._get(f"{self._of(run_id)}/timeline", RunTimeline, query)

    @sent
    def children(self, run_id: JobId | str) -> Call[tuple[RunView, ...]]:
        """The runs that a run has called. Raises JobNotFound."""
        return self._get(f"{self._of(run_id)}/children", tuple[RunView, ...])

    @sent
    def history(self, run_id: JobId | str) -> Call[RunHistory]:
        """What a run has done, event by event. Raises JobNotFound."""
        return self._get(f"{self._of(run_id)}/history", RunHistory)

    @sent
    def signal(self, run_id: JobId | str, event: str, value: Any = None, *, key: str | None = None) -> Call[None]:
        """Send an event to a run; with a `key` the run sees it once. As `app.workflows.signal`.

        Raises JobNotFound, RunNotOpen, and InvalidArguments for a value that cannot be written as JSON.
        """
        body = {"event": event, "value": json_value(value, f"the value of the event {event!r}"), "key": key}
        return Call(method="POST", path=f"{self._of(run_id)}/signal", body=body, key=key, read=nothing)

    @sent
    def withdraw(
        self, run_id: JobId | str, event: str, *, id: str | None = None, key: str | None = None
    ) -> Call[WithdrawnEvent]:
        """Take back an event that a run has not taken; returns it, with its value. As `app.workflows.withdraw`.

        Raises JobNotFound, NotFound if no such event waits, Conflict if it was taken, Misuse if several are meant.
        """
        body = {"event": event, **given({"id": id, "key": key})}
        return Call(method="POST", path=f"{self._of(run_id)}/withdraw", body=body, read=WithdrawnEvent.model_validate)

    @sent
    def cancel(self, run_id: JobId | str) -> Call[bool]:
        """Ask a run to end; returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "cancel")

    @sent
    def terminate(self, run_id: JobId | str) -> Call[bool]:
        """End a run at once; returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "terminate")

    @sent
    def pause(self, run_id: JobId | str) -> Call[bool]:
        """Let a run take no further step; returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "pause")

    @sent
    def resume(self, run_id: JobId | str) -> Call[bool]:
        """Let a paused run go on; returns whether it was paused. Raises JobNotFound."""
        return self._act(run_id, "resume")

    @sent
    def restart(self, run_id: JobId | str, *, step: int | str | None = None, from_failed: bool = False) -> Call[JobId]:
        """Run a workflow again from one of its steps; returns the id of the new run. As `app.workflows.restart`."""
        body = {
            "step": step,
            **given({"from_failed": from_failed or None}),
        }  # unsaid where it is not meant: an earlier release knows no such word
        return Call(method="POST", path=f"{self._of(run_id)}/restart", body=body, read=new_id)

    @sent_in_pieces
    def restart_all(
        self,
        after: str,
        workflow: Function[..., Any] | str | None = None,
        *,
        step: int | str | None = None,
        from_failed: bool = False,
        **where: Unpack[RunsWhere],
    ) -> Call[Page]:
        """Restart all failed runs that are chosen; returns how many. Each request works for about a second.

        As `app.workflows.restart_all`.
        """
        body = {**_chosen(function=workflow, **where), **given({"step": step, "from_failed": from_failed or None})}
        return self._piece(f"{self._home}/workflows/restart-all", body, after)

    def _of(self, run_id: str) -> str:
        return f"{self._home}/workflows/{part(run_id)}"

    def _act(self, run_id: str, action: str) -> Call[bool]:
        return Call(method="POST", path=f"{self._of(run_id)}/{action}", body={}, read=_changed)


class WorkflowRequests(RunRequests, RequestsWithOptions):
    """The same, and starting runs, with options."""

    def start(self, workflow: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], once: str) -> Call[JobId]:
        """Start a run; `once` is the key of the request."""
        named = function_call(workflow, args, kwargs)
        body = {"function": named["function"], "args": named["args"], **self._options}
        return Call(method="POST", path=f"{self._home}/workflows", body=body, key=once, read=new_id)

    def wait(self, run_id: JobId | str, wait_s: float) -> Call[RunView]:
        """A run when it has ended, or as it is after `wait_s`."""
        path = f"{self._of(run_id)}/result"
        return Call(method="GET", path=path, query={"wait": wait_s}, wait_s=wait_s, read=RunView.model_validate)


def _chosen(**asked: Any) -> dict[str, Any]:
    """The query of a list of runs."""
    query = given(asked)
    if isinstance(query.get("state"), str):
        query["state"] = [query["state"]]
    if attributes := query.pop("attributes", None):
        query["attribute"] = [f"{name}={word_of(value)}" for name, value in attributes.items()]
    return query


class TypeRequests(Requests):
    """What may be done with workflows, which belong to no tenant."""

    @sent
    def get(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """A workflow, and whether runs of it start. Raises FunctionNotFound, Misuse for what is none."""
        return self._get(self._of(workflow), WorkflowTypeView)

    @sent
    def list(self, *, deleted: bool = False) -> Call[Sequence[WorkflowTypeView]]:
        """The workflows by name; deleted ones are left out unless `deleted` is set."""
        query = {"deleted": deleted}
        return self._get(f"{self._home}/workflow-types", tuple[WorkflowTypeView, ...], query)

    @sent
    def pause(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Let no run of a workflow start; as `app.workflows.types.pause`."""
        return self._changed(workflow, "pause")

    @sent
    def resume(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Let runs of a workflow start again."""
        return self._changed(workflow, "resume")

    @sent
    def deprecate(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """As `pause`, for a workflow that is to start no more."""
        return self._changed(workflow, "deprecate")

    @sent
    def delete(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """As `deprecate`; the workflow is not listed, and its schedules are removed at their next time."""
        return self._changed(workflow, "delete")

    def _changed(self, workflow: Function[..., Any] | str, action: str) -> Call[WorkflowTypeView]:
        path = f"{self._of(workflow)}/{action}"
        return self._post(path, WorkflowTypeView, {})

    def _of(self, workflow: Function[..., Any] | str) -> str:
        name = workflow.name if isinstance(workflow, Function) else workflow
        return f"{self._home}/workflow-types/{part(name)}"


def _changed(found: Any) -> bool:
    return bool(found["changed"])
