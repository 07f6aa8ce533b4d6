"""`client.workflows`, as requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from evertick.api.run_details import DetailedRunPage, RunDetails, RunTimeline
from evertick.api.workflows import RunHistory, RunPage, RunView, WorkflowTypeView
from evertick.app.functions.function import Function
from evertick.app.functions.options import OnConflict
from evertick.app.transacting import Page
from evertick.app.workflows.choice import RunsWhere
from evertick.base.ids import JobId
from evertick.base.records.attributes import Value, word_of
from evertick.client.calls import Call, function_call, given, json_value, nothing, part, piece, sent, sent_in_pieces
from evertick.client.fleet import ROOT


@dataclass(frozen=True, slots=True)
class WorkflowRequests:
    """What may be done with the runs below `home`, with options for those that are started."""

    home: str
    options: tuple[tuple[str, Any], ...] = ()

    def using(
        self,
        *,
        key: str | None = None,
        on_conflict: OnConflict | str | None = None,
        priority: int | None = None,
        attributes: Mapping[str, Value] | None = None,
    ) -> "WorkflowRequests":
        """The same with options; those of `app.workflows.using`."""
        changes = given({"key": key, "on_conflict": on_conflict, "priority": priority, "attributes": attributes})
        return replace(self, options=tuple((dict(self.options) | changes).items()))

    def start(self, workflow: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], once: str) -> Call[JobId]:
        """Start a run; `once` is the key of the request."""
        named = function_call(workflow, args, kwargs)
        body = {"workflow": named["function"], "args": named["args"], **dict(self.options)}
        return Call(method="POST", path=f"{self.home}/workflows", body=body, key=once, read=_id)

    def get(self, run_id: JobId | str) -> Call[RunDetails]:
        """A run, by its id or its key; what it waits for, and the events that it has not taken. Raises JobNotFound."""
        return Call(method="GET", path=self._of(run_id), read=RunDetails.model_validate)

    def wait(self, run_id: JobId | str, wait_s: float) -> Call[RunView]:
        """A run when it has ended, or as it is after `wait_s`."""
        path = f"{self._of(run_id)}/result"
        return Call(method="GET", path=path, query={"wait": wait_s}, wait_s=wait_s, read=RunView.model_validate)

    def list(
        self,
        workflow: Function[..., Any] | str | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
        **where: Unpack[RunsWhere],
    ) -> Call[RunPage]:
        """A page of runs, the newest first; as `app.workflows.list`."""
        query = _chosen(workflow=workflow, limit=limit, cursor=cursor, **where)
        return Call(method="GET", path=f"{self.home}/workflows", query=query, read=RunPage.model_validate)

    def list_detailed(
        self, workflow: Function[..., Any] | str | None = None, *, limit: int = 100, cursor: str | None = None,
        **where: Unpack[RunsWhere],
    ) -> Call[DetailedRunPage]:  # fmt: skip
        """A page of runs for people; as `app.workflows.list_detailed`."""
        query = _chosen(workflow=workflow, limit=limit, cursor=cursor, **where)
        path = f"{self.home}/workflow-details"
        return Call(method="GET", path=path, query=query, read=DetailedRunPage.model_validate)

    def timeline(self, run_id: JobId | str, *, limit: int = 200, before: int | None = None) -> Call[RunTimeline]:
        """A run with its newest steps, or those before one. Raises JobNotFound."""
        query = given({"limit": limit, "before": before})
        return Call(method="GET", path=f"{self._of(run_id)}/timeline", query=query, read=RunTimeline.model_validate)

    def children(self, run_id: JobId | str) -> Call[tuple[RunView, ...]]:
        """The runs that a run has called. Raises JobNotFound."""
        return Call(method="GET", path=f"{self._of(run_id)}/children", read=_runs)

    def history(self, run_id: JobId | str) -> Call[RunHistory]:
        """What a run has done, event by event. Raises JobNotFound."""
        return Call(method="GET", path=f"{self._of(run_id)}/history", read=RunHistory.model_validate)

    def signal(self, run_id: JobId | str, event: str, value: Any = None, *, key: str | None = None) -> Call[None]:
        """Send an event to a run; with a `key` the run sees it once. As `app.workflows.signal`.

        Raises JobNotFound, RunNotOpen, and InvalidArguments for a value that cannot be written as JSON.
        """
        body = {"event": event, "value": json_value(value, f"the value of the event {event!r}"), "key": key}
        return Call(method="POST", path=f"{self._of(run_id)}/signal", body=body, key=key, read=nothing)

    def cancel(self, run_id: JobId | str) -> Call[bool]:
        """Ask a run to end; returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "cancel")

    def terminate(self, run_id: JobId | str) -> Call[bool]:
        """End a run at once; returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "terminate")

    def pause(self, run_id: JobId | str) -> Call[bool]:
        """Let a run take no further step; returns whether it had not ended. Raises JobNotFound."""
        return self._act(run_id, "pause")

    def resume(self, run_id: JobId | str) -> Call[bool]:
        """Let a paused run go on; returns whether it was paused. Raises JobNotFound."""
        return self._act(run_id, "resume")

    def restart(self, run_id: JobId | str, *, step: int | str | None = None, from_failed: bool = False) -> Call[JobId]:
        """Run a workflow again from one of its steps; returns the id of the new run. As `app.workflows.restart`."""
        body = {
            "step": step,
            **given({"from_failed": from_failed or None}),
        }  # unsaid where it is not meant: an earlier release knows no such word
        return Call(method="POST", path=f"{self._of(run_id)}/restart", body=body, read=_id)

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
        body = {**_chosen(workflow=workflow, **where), **given({"step": step, "from_failed": from_failed or None})}
        return piece(f"{self.home}/workflows/restart-all", body, after)

    def _of(self, run_id: str) -> str:
        return f"{self.home}/workflows/{part(run_id)}"

    def _act(self, run_id: str, action: str) -> Call[bool]:
        return Call(method="POST", path=f"{self._of(run_id)}/{action}", body={}, read=_changed)


class WorkflowOperations:
    """The operations of a surface."""

    get = sent(WorkflowRequests.get)
    list = sent(WorkflowRequests.list)
    list_detailed = sent(WorkflowRequests.list_detailed)
    timeline = sent(WorkflowRequests.timeline)
    children = sent(WorkflowRequests.children)
    history = sent(WorkflowRequests.history)
    signal = sent(WorkflowRequests.signal)
    cancel = sent(WorkflowRequests.cancel)
    terminate = sent(WorkflowRequests.terminate)
    pause = sent(WorkflowRequests.pause)
    resume = sent(WorkflowRequests.resume)
    restart = sent(WorkflowRequests.restart)
    restart_all = sent_in_pieces(WorkflowRequests.restart_all)


def _chosen(**asked: Any) -> dict[str, Any]:
    """The query of a list of runs."""
    query = given(asked)
    if isinstance(query.get("state"), str):
        query["state"] = [query["state"]]
    if attributes := query.pop("attributes", None):
        query["attribute"] = [f"{name}={word_of(value)}" for name, value in attributes.items()]
    return query


@dataclass(frozen=True, slots=True)
class TypeRequests:
    """What may be done with workflows, which belong to no tenant."""

    def get(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """A workflow, and whether runs of it start. Raises FunctionNotFound, Misuse for what is none."""
        return Call(method="GET", path=self._of(workflow), read=WorkflowTypeView.model_validate)

    def list(self, *, deleted: bool = False) -> Call[Sequence[WorkflowTypeView]]:
        """The workflows by name; deleted ones are left out unless `deleted` is set."""
        query = {"deleted": deleted}
        return Call(method="GET", path=f"{ROOT}/workflow-types", query=query, read=_types)

    def pause(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Let no run of a workflow start; as `app.workflows.types.pause`."""
        return self._changed(workflow, "pause")

    def resume(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """Let runs of a workflow start again."""
        return self._changed(workflow, "resume")

    def deprecate(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """As `pause`, for a workflow that is to start no more."""
        return self._changed(workflow, "deprecate")

    def delete(self, workflow: Function[..., Any] | str) -> Call[WorkflowTypeView]:
        """As `deprecate`; the workflow is not listed, and its schedules are removed at their next time."""
        return self._changed(workflow, "delete")

    def _changed(self, workflow: Function[..., Any] | str, action: str) -> Call[WorkflowTypeView]:
        path = f"{self._of(workflow)}/{action}"
        return Call(method="POST", path=path, body={}, read=WorkflowTypeView.model_validate)

    def _of(self, workflow: Function[..., Any] | str) -> str:
        name = workflow.name if isinstance(workflow, Function) else workflow
        return f"{ROOT}/workflow-types/{part(name)}"


class TypeOperations:
    """The operations of a surface."""

    get = sent(TypeRequests.get)
    pause = sent(TypeRequests.pause)
    resume = sent(TypeRequests.resume)
    deprecate = sent(TypeRequests.deprecate)
    delete = sent(TypeRequests.delete)
    list = sent(TypeRequests.list)


def _id(found: Any) -> JobId:
    return JobId(found["id"])


def _runs(found: Any) -> tuple[RunView, ...]:
    return tuple(RunView.model_validate(each) for each in found)


def _types(found: Any) -> tuple[WorkflowTypeView, ...]:
    return tuple(WorkflowTypeView.model_validate(each) for each in found)


def _changed(found: Any) -> bool:
    return bool(found["changed"])
