"""Workflows that are paused, deprecated or deleted: which runs start, and what schedules do meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, MutationCtx, Step, every
from evertick.app.functions.function import Workflow
from evertick.errors import FunctionNotFound, Misuse, ScheduleNotFound, WorkflowInactive
from evertick.schedules import Reason, Spec
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World, minutes
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine
from tests.app.workflows.test_on_both_databases import until

Flow = Workflow[[], Any]


@pytest.fixture
def app(open_app: OpenApp) -> App:
    return open_app()


@pytest.fixture
def flow(app: App) -> Flow:
    return _flow_of(app)


def _flow_of(app: App) -> Flow:
    @app.workflow(name="flow")
    async def flow(step: Step) -> str:
        return str(await step.wait_for("go"))

    return flow


def test_a_workflow_is_active_until_it_is_given_another_status(app: App, flow: Flow) -> None:
    types = app.workflows.types
    assert [(each.name, each.status, each.changed_at) for each in types.list()] == [("flow", "active", None)]

    assert types.pause(flow).status == "paused"
    paused = types.get("flow")
    assert (paused.status, paused.changed_at is None) == ("paused", False)
    assert types.pause("flow") == paused  # nothing changes
    assert types.deprecate(flow).status == "deprecated"
    assert types.delete(flow).status == "deleted"
    assert types.list() == []
    assert [each.status for each in types.list(deleted=True)] == ["deleted"]
    assert types.resume(flow).status == "active"
    assert [each.status for each in app.tenant("acme").workflows.types.list()] == ["active"]


@pytest.mark.parametrize("change", ["pause", "deprecate", "delete"])
def test_no_run_of_an_inactive_workflow_starts_and_those_begun_go_on(app: App, flow: Flow, change: str) -> None:
    @app.mutation(name="begin")
    def begin(ctx: MutationCtx) -> str | None:
        try:
            ctx.workflows.start(flow)
        except WorkflowInactive as error:
            ctx.db.insert("refused", {"status": error.status})
        return ctx.workflows.types.get(flow).status

    @app.workflow(name="parent")
    async def parent(step: Step) -> str:
        await step.wait_for("now")
        return await step.using(name="child").workflow(flow)

    starts: list[Callable[[], object]] = [
        lambda: app.workflows.start(flow),
        lambda: app.workflows.using(key="another").start(flow),
        lambda: app.workflows.restart("k"),
        lambda: app.scheduler.run_after(60, flow),
        lambda: asyncio.run(app.aio.workflows.start(flow)),
        lambda: asyncio.run(app.aio.scheduler.run_after(60, flow)),
        lambda: app.tenant("acme").workflows.start(flow),
    ]
    with Engine(app):
        run_id = app.workflows.using(key="k").start(flow)
        family = app.workflows.start(parent)
        until(lambda: {app.workflows.get(each).state for each in (run_id, family)} == {"running"})
        status = getattr(app.workflows.types, change)(flow).status
        for start in starts:
            with pytest.raises(WorkflowInactive, match=f"workflow flow is {status}, so no run of it starts"):
                start()
        assert app.call(begin) == status
        assert [each["status"] for each in app.db.query("refused").collect()] == [status]
        assert app.workflows.using(key="k").start(flow) == run_id  # nothing is started: it runs already

        app.workflows.signal(run_id, "go", "went")
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == "went"
        app.workflows.signal(family, "now")
        until(lambda: len(app.workflows.list(flow, state="running").runs) == 1)
        app.workflows.types.resume(flow)
        assert app.workflows.get(app.workflows.start(flow)).function == "flow"


def test_a_failed_run_of_an_inactive_workflow_is_not_retried(app: App, flow: Flow) -> None:
    with Engine(app):
        run_id = app.workflows.start(flow)
        until(lambda: app.workflows.get(run_id).state == "running")
        app.workflows.terminate(run_id)
    app.workflows.types.pause(flow)

    with pytest.raises(WorkflowInactive, match="workflow flow is paused"):
        app.jobs.retry(run_id)
    assert app.jobs.retry_all(state="canceled") == 0
    app.workflows.types.resume(flow)
    assert app.jobs.retry_all(state="canceled") == 1


def test_what_is_no_workflow_has_no_status(app: App, flow: Flow) -> None:
    @app.mutation(name="plain")
    def plain(ctx: MutationCtx) -> None: ...

    for wrong in (plain, "plain"):
        with pytest.raises(Misuse, match="plain is a mutation, not a workflow"):
            app.workflows.types.pause(wrong)  # type: ignore[arg-type]
    for unknown in ("flwo", ""):
        with pytest.raises(FunctionNotFound):
            app.workflows.types.pause(unknown)
    assert [each.name for each in app.workflows.types.list(deleted=True)] == ["flow"]


def test_the_awaited_surface_does_the_same(app: App, flow: Flow) -> None:
    async def use() -> list[str]:
        types = app.aio.workflows.types
        return [(await types.pause(flow)).status, *(each.status for each in await types.list())]

    assert asyncio.run(use()) == ["paused", "paused"]
    with pytest.raises(WorkflowInactive):
        app.workflows.start(flow)


# -- schedules


@pytest.mark.parametrize(("change", "status"), [("pause", "paused"), ("deprecate", "deprecated")])
def test_a_schedule_skips_the_times_of_an_inactive_workflow_and_goes_on(change: str, status: str) -> None:
    app = App("skips")
    flow = _flow_of(app)
    with World(app, at="2026-01-01T00:00:00Z") as world:
        app.schedules.create("s", when=every(minutes=1), do=flow, overlap="allow_all")
        world.advance(minutes(1))
        getattr(app.workflows.types, change)(flow)
        ahead = app.schedules.explain("s", world.now.replace(minute=2))
        world.advance(minutes(2))
        app.workflows.types.resume(flow)
        world.advance(minutes(1))

        rows = app.schedules.occurrences("s").occurrences
        ineligible = Reason.TARGET_INELIGIBLE
        assert [row.reason for row in rows] == [Reason.ON_TIME, ineligible, ineligible, Reason.ON_TIME]
        assert rows[1].detail == f"workflow flow is {status}"
        assert ahead.sentence == f"it is to be skipped: workflow flow is {status}"
        told = app.schedules.explain("s", world.now.replace(minute=2))
        assert told.sentence == f"skipped: workflow flow is {status}"
        audited = app.schedules.audit(world.now.replace(minute=0), world.now)
        assert (audited.counts.skipped, audited.clean) == (2, True)
        assert len(app.workflows.list(flow).runs) == 2


@pytest.mark.parametrize("paused", ["old", "new"])
def test_a_workflow_that_was_renamed_is_inactive_under_its_old_name_too(paused: str) -> None:
    before, after = App("shop"), App("shop")

    @before.workflow(name="old")
    async def old(step: Step) -> str: ...

    @after.workflow(name="new", aliases=["old"])
    async def new(step: Step) -> str: ...

    with World(before) as world:
        before.schedules.create("hourly", when=every(minutes=60), do=old)
        world.advance(minutes(60))
        run = before.workflows.start(old)
        world.deploy(after)
        after.workflows.cancel(run)
        after.workflows.types.pause(paused)
        world.advance(minutes(60))

        [_, held] = after.schedules.occurrences("hourly").occurrences
        assert (held.fate, held.reason, held.detail) == ("skipped", Reason.TARGET_INELIGIBLE, "workflow new is paused")
        for begin in (
            lambda: after.workflows.start("old"),
            lambda: after.workflows.restart(run),
            lambda: after.jobs.retry(run),
        ):
            with pytest.raises(WorkflowInactive, match="new is paused"):
                begin()


def test_a_trigger_of_an_inactive_workflow_is_skipped() -> None:
    app = App("triggers")
    flow = _flow_of(app)
    with World(app):
        app.schedules.create("s", when=every(hours=1), do=flow)
        app.workflows.types.pause(flow)
        assert app.schedules.trigger("s").reason is Reason.TARGET_INELIGIBLE
        assert app.schedules.get("s").blocked_reason == "workflow flow is paused"


def test_a_deleted_workflow_takes_its_schedules_with_it_and_crons_of_the_code_skip() -> None:
    app = App("deletes")
    flow = _flow_of(app)
    app.crons.add("c", every(minutes=1), flow)
    with World(app) as world:
        app.schedules.create("s", when=every(minutes=1), do=flow)
        app.workflows.types.delete(flow)
        world.advance(minutes(2))
        world.restart()
        world.advance(minutes(1))

        assert [each.id for each in app.schedules.list().schedules] == ["c"]
        reasons = [row.reason for row in app.schedules.occurrences("c").occurrences]
        assert reasons[1:] == [Reason.TARGET_INELIGIBLE] * 3  # the first one was when it was declared
        assert len(app.workflows.list(flow).runs) == 1
        with pytest.raises(ScheduleNotFound, match="target of schedule 'again' is gone"):
            app.schedules.create("again", when=every(minutes=1), do=flow)


def test_the_statuses_are_read_once_for_a_page_and_only_for_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("pages")
    flow = _flow_of(app)
    asked: list[set[str]] = []

    @app.mutation(name="plain")
    def plain(ctx: MutationCtx) -> None: ...

    from evertick.store.transaction.workflows import WorkflowTypes

    original = WorkflowTypes.workflow_types

    def counted(transaction: Transaction, names: Any = None) -> Any:
        asked.append(names)
        return original(transaction, names)  # type: ignore[arg-type]

    with World(app) as world:
        for number in range(20):
            app.schedules.create(f"p{number}", when=every(minutes=1), do=plain)
        monkeypatch.setattr(WorkflowTypes, "workflow_types", counted)
        world.advance(minutes(1))
        assert asked == []
        for number in range(20):
            app.schedules.create(f"w{number}", when=every(minutes=1), do=flow)
        asked.clear()
        world.advance(minutes(1))
        assert asked
        assert all(names == {"flow"} for names in asked)
        assert len(asked) < 10


def test_a_deleted_workflow_takes_paused_schedules_and_those_without_a_next_time_with_it(app: App, flow: Flow) -> None:
    """Nothing would evaluate them otherwise: a paused schedule waits, and one without times does so for ever."""
    app.schedules.create("paused", when=every(hours=1), do=flow, paused=True)
    app.schedules.create("triggered", when=Spec(), do=flow)
    app.schedules.create("yearly", when="0 0 29 2 *", do=flow)
    app.workflows.types.delete(flow)

    with Engine(app):
        until(lambda: app.schedules.list().schedules == ())

    for name in ("paused", "triggered", "yearly"):
        line = app.schedules.history(name)[0]
        assert (line.action, line.detail) == ("deleted", "its target is gone")
