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
    """Requests about the runs of the tenant at `home`. A run is given by its id or its key."""

    @sent
    def get(self, run_id: JobId | str) -> Call[RunDetails]:
        """A run: its state, progress, result or error, what it waits for, and the events that it has not taken yet.

        Raises JobNotFound.
        """
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
        """A page of runs, newest first. The filters are those of `app.workflows.list`."""
        query = _chosen(function=workflow, limit=limit, cursor=cursor, **where)
        return self._get(f"{self._home}/workflows", RunPage, query)

    @sent
    def list_detailed(
        self, workflow: Function[..., Any] | str | None = None, *, limit: int = 100, cursor: str | None = None,
        **where: Unpack[RunsWhere],
    ) -> Call[DetailedRunPage]:  # fmt: skip
        """A page of runs, newest first, each with what it waits for; see `app.workflows.list_detailed`."""
        query = _chosen(function=workflow, limit=limit, cursor=cursor, **where)
        path = f"{self._home}/workflow-details"
        return self._get(path, DetailedRunPage, query)

    @sent
    def timeline(self, run_id: JobId | str, *, limit: int = 200, before: int | None = None) -> Call[RunTimeline]:
        """A run with its newest `limit` steps; `before` selects steps with a lower number. Raises JobNotFound."""
        query = given({"limit": limit, "before": before})
        return self._get(f"{self._of(run_id)}/timeline", RunTimeline, query)

    @sent
    def children(self, run_id: JobId | str) -> Call[tuple[RunView, ...]]:
        """The runs that a run called with `step.workflow`, in the order of the calls. Raises JobNotFound."""
        return self._get(f"{self._of(run_id)}/children", tuple[RunView, ...])

    @sent
    def history(self, run_id: JobId | str) -> Call[RunHistory]:
        """The history of a run, event by event. Raises JobNotFound."""
        return self._get(f"{self._of(run_id)}/history", RunHistory)

    @sent
    def signal(self, run_id: JobId | str, event: str, value: Any = None, *, key: str | None = None) -> Call[None]:
        """Send an event to a run. Of several events with the same `key` the run gets only the first.

        See `app.workflows.signal`. Raises JobNotFound, RunNotOpen, and InvalidArguments for a value that cannot be
        written as JSON.
        """
        body = {"event": event, "value": json_value(value, f"the value of the event {event!r}"), "key": key}
        return Call(method="POST", path=f"{self._of(run_id)}/signal", body=body, key=key, read=nothing)

    @sent
    def withdraw(
        self, run_id: JobId | str, event: str, *, id: str | None = None, key: str | None = None
    ) -> Call[WithdrawnEvent]:
        """Withdraw an event that was sent to a run and that its code has not taken; returns it, with its value.

        See `app.workflows.withdraw`. Raises JobNotFound, NotFound if no such event waits, Conflict if the code has
        taken it, Misuse if several match.
        """
        body = {"event": event, **given({"id": id, "key": key})}
        return Call(method="POST", path=f"{self._of(run_id)}/withdraw", body=body, read=WithdrawnEvent.model_validate)

    @sent
    def cancel(self, run_id: JobId | str) -> Call[bool]:
        """Ask a run to end; its code can clean up. Returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "cancel")

    @sent
    def terminate(self, run_id: JobId | str) -> Call[bool]:
        """End a run at once; its code does not run any more. Returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "terminate")

    @sent
    def pause(self, run_id: JobId | str) -> Call[bool]:
        """Stop a run from taking further steps; returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "pause")

    @sent
    def resume(self, run_id: JobId | str) -> Call[bool]:
        """Let a paused run continue; returns whether it was paused. Raises JobNotFound."""
        return self._act(run_id, "resume")

    @sent
    def restart(self, run_id: JobId | str, *, step: int | str | None = None, from_failed: bool = False) -> Call[JobId]:
        """Run a workflow again from one of its steps, or from its beginning; returns the id of the new run.

        See `app.workflows.restart`.
        """
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
        """Restart all failed runs that match the filters; returns how many. See `app.workflows.restart_all`.

        It takes several requests, of about a second each.
        """
        body = {**_chosen(function=workflow, **where), **given({"step": step, "from_failed": from_failed or None})}
        return self._piece(f"{self._home}/workflows/restart-all", body, after)

    def _of(self, run_id: str) -> str:
        return f"{self._home}/workflows/{part(run_id)}"

    def _act(self, run_id: str, action: str) -> Call[bool]:
        return Call(method="POST", path=f"{self._of(run_id)}/{action}", body={}, read=_changed)


class WorkflowRequests(RunRequests, RequestsWithOptions):
    """Requests about runs, and requests that start runs with options."""

    def start(self, workflow: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], once: str) -> Call[JobId]:
        """Start a run; `once` is the idempotency key of the request."""
        named = function_call(workflow, args, kwargs)
        body = {"function": named["function"], "args": named["args"], **self._options}
        return Call(method="POST", path=f"{self._home}/workflows", body=body, key=once, read=new_id)

    def wait(self, run_id: JobId | str, wait_s: float) -> Call[RunView]:
        """Wait up to `wait_s` seconds for a run to end; returns the run, even if it has not ended."""
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
    """Requests about workflows themselves, which belong to no tenant."""

    @sent
    def get(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """A workflow, and whether runs of it start. Raises FunctionNotFound, Misuse if it is neither a function nor a
        name.
        """
        return self._get(self._of(workflow), WorkflowTypeView)

    @sent
    def list(self, *, deleted: bool = False) -> Call[Sequence[WorkflowTypeView]]:
        """The workflows by name; deleted ones are omitted unless `deleted` is set."""
        query = {"deleted": deleted}
        return self._get(f"{self._home}/workflow-types", tuple[WorkflowTypeView, ...], query)

    @sent
    def pause(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Prevent runs of a workflow from starting until it is resumed; see `app.workflows.types.pause`."""
        return self._changed(workflow, "pause")

    @sent
    def resume(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Let runs of a workflow start again, whatever its status is."""
        return self._changed(workflow, "resume")

    @sent
    def deprecate(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Like `pause`, for a workflow that must not start any more."""
        return self._changed(workflow, "deprecate")

    @sent
    def delete(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Like `deprecate`; the workflow is not listed, and its schedules are removed at their next time."""
        return self._changed(workflow, "delete")

    def _changed(self, workflow: Function[..., Any] | str, action: str) -> Call[WorkflowTypeView]:
        path = f"{self._of(workflow)}/{action}"
        return self._post(path, WorkflowTypeView, {})

    def _of(self, workflow: Function[..., Any] | str) -> str:
        name = workflow.name if isinstance(workflow, Function) else workflow
        return f"{self._home}/workflow-types/{part(name)}"


def _changed(found: Any) -> bool:
    return bool(found["changed"])
