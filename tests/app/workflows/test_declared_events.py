"""Events that a workflow declares: checked when they are sent and when they are taken, on both databases."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from evertick import App, MutationCtx, Step
from evertick.cli.workflow.local_session import session_on
from evertick.errors import InvalidArguments, LimitExceeded, Misuse, RegistrationError
from evertick.testing import replay
from evertick.workflows import Workflow
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until


class Decision(BaseModel):
    approved: bool
    by: str = "nobody"
    at: datetime | None = None


class NoType:
    pass


@pytest.fixture
def app(open_app: OpenApp) -> App:
    return open_app()


@pytest.fixture
def flow(app: App) -> Workflow[[], str]:
    @app.workflow(name="flow", events={"decision": Decision, "day": datetime, "note": Any})
    async def flow(step: Step) -> str:
        try:
            decision: Decision = await step.wait_for("decision")
        except InvalidArguments as error:
            return str(error)
        day: datetime = await step.wait_for("day")
        return f"{decision.approved} {decision.by} {decision.at} {day:%A} {await step.wait_for('note')}"

    return flow


def test_values_arrive_as_their_types(app: App, flow: Workflow[[], str]) -> None:
    run_id = app.workflows.start(flow)
    app.workflows.signal(run_id, "decision", Decision(approved=True, at=datetime(2026, 1, 1, tzinfo=UTC)))
    app.workflows.signal(run_id, "day", "2026-01-02T00:00:00Z")
    app.workflows.signal(run_id, "note", {"a": [1]})
    with Engine(app):
        until(lambda: app.workflows.get(run_id).has_ended)

    result = "True nobody 2026-01-01 00:00:00+00:00 Friday {'a': [1]}"
    assert app.workflows.get(run_id).result == result
    assert replay(flow, app.workflows.history(run_id)) == result


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"by": "ada"}, "the value of the event 'decision' of flow does not fit: approved: field required"),
        (
            {"approved": "perhaps"},
            "unable to interpret input (got 'perhaps'",
        ),
        (None, "does not fit: it: input should be"),
        ("{approved: true}", "does not fit: it: input should be"),
    ],
)
def test_a_value_that_does_not_fit_is_not_sent(app: App, flow: Workflow[[], str], value: Any, says: str) -> None:
    run_id = app.workflows.start(flow)
    with pytest.raises(InvalidArguments) as refused:
        app.workflows.signal(run_id, "decision", value)
    assert says in str(refused.value)
    assert app.workflows.get(run_id).waiting_event_count == 0


def test_an_event_that_is_not_declared_is_refused_where_it_is_sent_and_awaited(
    app: App, flow: Workflow[[], str]
) -> None:
    @app.mutation(name="send")
    def send(ctx: MutationCtx, run_id: str) -> None:
        ctx.workflows.signal(run_id, "decison", {"approved": True})

    @app.workflow(name="other", events={"paid": int})
    async def other(step: Step) -> int:
        return int(await step.wait_for("payed"))

    run_id = app.workflows.start(flow)
    says = "flow takes no event 'decison'; the events that it declares are decision, day, note"
    with pytest.raises(Misuse, match=says):
        app.workflows.signal(run_id, "decison", {"approved": True})
    with pytest.raises(Misuse, match=says):
        app.call(send, run_id)
    assert app.workflows.get(run_id).waiting_event_count == 0
    other_id = app.workflows.start(other)
    with Engine(app):
        until(lambda: app.workflows.get(other_id).has_ended)
    error = app.workflows.get(other_id).error
    assert error is not None
    assert "other takes no event 'payed'" in error["message"]


def test_what_was_sent_without_the_code_is_checked_when_it_is_taken(app: App, flow: Workflow[[], str]) -> None:
    app.open()
    run_id = app.workflows.start(flow)
    session_on(app.environment.store).runs.signal(run_id, "decision", {"approved": "perhaps"})
    with Engine(app):
        until(lambda: app.workflows.get(run_id).has_ended)
    result = app.workflows.get(run_id).result
    assert result.startswith(
        "the value of the event 'decision' of flow does not fit: approved: input should be a valid"
    )
    assert replay(flow, app.workflows.history(run_id)) == result


def test_the_size_is_that_of_what_is_kept(app: App, flow: Workflow[[], str]) -> None:
    run_id = app.workflows.start(flow)
    with pytest.raises(LimitExceeded, match="the value of the event 'note' has 1048578 bytes"):
        app.workflows.signal(run_id, "note", "x" * 1024 * 1024)


def test_a_workflow_of_an_earlier_name_has_its_events(app: App) -> None:
    @app.workflow(name="new", aliases=["old"], events={"n": int})
    async def new(step: Step) -> int:
        return int(await step.wait_for("n"))

    operations = app.workflows.operations
    assert [found and found.names for found in map(operations.declared_events, ("old", "new", "none"))] == [
        ("n",), ("n",), None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ({}, "events= has types by name"),
        (["decision"], "events= has types by name"),
        ({"": int}, "cannot name an event"),
        ({7: int}, "cannot name an event"),
    ],
)
def test_declarations_that_cannot_be_meant_are_refused(app: App, events: Any, says: str) -> None:
    async def code(step: Step) -> None: ...

    with pytest.raises(RegistrationError, match=says):
        app.workflow(name="flow", events=events)(code)
    with pytest.raises(Misuse, match="takes no option events"):
        app.mutation(name="m", events={"n": int})  # type: ignore[call-overload]


def test_a_type_that_pydantic_cannot_check_shows_when_the_app_opens(app: App) -> None:
    @app.workflow(name="flow", events={"odd": NoType})
    async def flow(step: Step) -> None: ...

    with pytest.raises(RegistrationError, match="pydantic cannot check values of its event 'odd'"):
        flow.check()
