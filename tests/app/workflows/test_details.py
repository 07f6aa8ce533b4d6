"""Runs for people: what each waits for, and its timeline; with a real worker, on both databases."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry, Step
from evertick.app.workflows.details import EVENTS_SHOWN, NEWEST
from evertick.base.records.workflows import CallKind
from evertick.errors import InvalidArguments, JobNotFound, LimitExceeded, Misuse
from evertick.testing import replay
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app with a run that has steps of each kind."""
    app = open_app()
    tries: list[int] = []

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str) -> str:
        return f"noted {text}"

    @app.action(name="mail", pool="mail")
    async def mail(ctx: ActionCtx, to: str) -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError(f"SMTP 421, try {len(tries)}")
        return 250

    @app.workflow(name="child")
    async def child(step: Step) -> str:
        return str(await step.wait_for("never"))

    @app.workflow(name="flow")
    async def flow(step: Step, user: str) -> None:
        await step.run(note, user)
        await step.using(retry=Retry(3, first=timedelta(milliseconds=1), jitter=0.0)).run(mail, to=user)
        await asyncio.gather(step.wait_for("paid", timeout=timedelta(days=3)), step.workflow(child))

    @app.workflow(name="long")
    async def long(step: Step) -> None:
        for n in range(NEWEST + 5):
            await step.run(note, str(n))
        await step.wait_for("go")

    return app


def waiting(app: App, name: str, **args: str) -> str:
    """A run of a workflow that waits, after everything before."""
    workflow = app.functions.resolve(name)
    run_id = app.workflows.using(key=f"{name}-1").start(workflow, **args)  # type: ignore[arg-type]
    with Engine(app):
        until(lambda: any(each.name in ("go", "child") for each in app.workflows.timeline(run_id).waits_for))
        until(lambda: all(child.state == "running" for child in app.workflows.timeline(run_id).children))
    return run_id


def test_a_timeline_has_what_is_kept_of_each_step(app: App) -> None:
    run_id = waiting(app, "flow", user="ada")

    found = app.workflows.timeline("flow-1")

    note, mail, paid, child = found.steps
    assert found.run.id == run_id
    assert (found.step_count, found.events, found.schedule) == (4, len(app.workflows.history(run_id).events), None)
    assert (note.result, note.args, note.job_id, note.attempts) == ("noted ada", None, None, ())
    assert (mail.result, mail.args, mail.pool) == (250, {"to": "ada"}, "mail")
    assert [each.outcome for each in mail.attempts] == ["failed", "failed", "success"]
    assert mail.attempts[0].error is not None
    assert mail.attempts[0].error["message"] == "SMTP 421, try 1"
    assert (paid.kind, paid.outcome, paid.result) == (CallKind.EVENT, "running", None)
    assert paid.due_at is not None
    assert timedelta(days=2) < paid.due_at - paid.started_at <= timedelta(days=3)
    assert (child.kind, child.attempts) == (CallKind.WORKFLOW, ())
    assert [each.id for each in found.children] == [child.job_id]
    assert [(each.name, each.kind, each.until) for each in found.waits_for] == [
        ("paid", "event", paid.due_at),
        ("child", "workflow", None),
    ]

    few = app.workflows.timeline(run_id, limit=2, before=3)
    assert [each.step for each in few.steps] == [1, 2]
    assert few.step_count == 4


def test_a_step_says_which_pool_holds_it(app: App) -> None:
    app.open()
    app.pools.pause("mail")
    run_id = app.workflows.start(app.functions.resolve("flow"), user="ada")  # type: ignore[arg-type]
    with Engine(app):
        until(lambda: bool(app.workflows.timeline(run_id).waits_for))

    found = app.workflows.timeline(run_id)

    assert [each.held for each in found.waits_for] == ["waits: pool 'mail' is paused"]
    assert [each.held for each in found.steps] == [None, "waits: pool 'mail' is paused"]
    assert found.steps[-1].attempts == ()


def test_a_list_says_what_each_run_waits_for(app: App) -> None:
    waiting(app, "flow", user="ada")
    not_begun = app.workflows.start(app.functions.resolve("flow"), user="ben")  # type: ignore[arg-type]
    app.workflows.terminate(app.workflows.start(app.functions.resolve("flow"), user="cleo"))  # type: ignore[arg-type]

    found = app.workflows.list_detailed("flow")

    waits = {run.args["user"]: [each.name for each in run.waits_for] for run in found.runs}
    assert waits == {"ada": ["paid", "child"], "ben": [], "cleo": []}
    assert next(run for run in found.runs if run.id == not_begun).state == "pending"
    first = app.workflows.list_detailed("flow", limit=1)
    assert first.cursor is not None
    assert app.workflows.list_detailed("flow", limit=1, cursor=first.cursor).runs == found.runs[1:2]


def test_a_run_says_what_it_waits_for_and_which_events_it_has_not_taken(app: App) -> None:
    run_id = waiting(app, "flow", user="ada")
    before = app.workflows.get("flow-1")
    assert (before.waiting_events, before.waiting_event_count) == ((), 0)

    app.workflows.signal(run_id, "payed", {"amount": 12}, key="k")
    for _ in range(EVENTS_SHOWN + 1):
        app.workflows.signal(run_id, "other")

    run, history = app.workflows.get("flow-1"), app.workflows.history(run_id)
    assert [(each.name, each.kind) for each in run.waits_for] == [("paid", "event"), ("child", "workflow")]
    assert run.waits_for == app.workflows.timeline(run_id).waits_for
    first = run.waiting_events[0]
    assert (first.name, first.key, first.size) == ("payed", "k", len('{"amount": 12}'))
    assert abs(first.sent_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert (run.waiting_event_count, len(run.waiting_events)) == (EVENTS_SHOWN + 2, EVENTS_SHOWN)
    found = app.workflows.timeline(run_id)
    for each in (history, found):
        assert (each.waiting_events, each.waiting_event_count) == (run.waiting_events, EVENTS_SHOWN + 2)
    assert replay(app.functions.resolve("flow"), history.to_json()) is None  # type: ignore[arg-type]

    app.workflows.terminate(run_id)
    ended = app.workflows.get(run_id)
    assert (ended.waits_for, ended.waiting_event_count) == ((), EVENTS_SHOWN + 2)


def test_a_run_says_which_pool_holds_what_it_waits_for(app: App) -> None:
    app.open()
    app.pools.pause("mail")
    run_id = app.workflows.start(app.functions.resolve("flow"), user="ada")  # type: ignore[arg-type]
    with Engine(app):
        until(lambda: bool(app.workflows.get(run_id).waits_for))
    [mail] = app.workflows.get(run_id).waits_for
    assert (mail.name, mail.held) == ("mail", "waits: pool 'mail' is paused")


def test_of_a_long_journal_a_list_reads_the_end(app: App) -> None:
    waiting(app, "long")
    [run] = app.workflows.list_detailed("long").runs
    assert [each.name for each in run.waits_for] == ["go"]


def test_bad_questions_are_refused(app: App) -> None:
    app.open()
    with pytest.raises(LimitExceeded, match="1 to 100 runs, not 101"):
        app.workflows.list_detailed(limit=101)
    with pytest.raises(InvalidArguments):
        app.workflows.list_detailed(cursor="sched_1")
    with pytest.raises(JobNotFound):
        app.workflows.timeline("gone")
    with pytest.raises(LimitExceeded, match="1 to 1,000 steps"):
        app.workflows.timeline("gone", limit=0)
    with pytest.raises(Misuse, match="number of a step"):
        app.workflows.timeline("gone", before="1")  # type: ignore[arg-type]
