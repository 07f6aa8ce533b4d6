"""Jobs are found, canceled and moved by their keys: in mutations, in actions and from outside, on both databases."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, JobId, MutationCtx, SyncActionCtx
from evertick.errors import InvalidArguments, JobNotFound, JobNotPending
from evertick.functions import JobState, OnConflict
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of

KEY = "reminder:7:24h"


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app that reminds, and cancels by key in every kind of function."""
    app = open_app()

    @app.mutation(name="remind")
    def remind(ctx: MutationCtx, text: str) -> str:
        return text

    @app.mutation(name="cancel")
    def cancel(ctx: MutationCtx, named: str) -> None:
        ctx.scheduler.cancel(named)

    @app.action(name="act")
    async def act(ctx: ActionCtx, named: str) -> None:
        await ctx.scheduler.cancel(named)

    @app.action(name="act_sync")
    def act_sync(ctx: SyncActionCtx, named: str) -> None:
        ctx.scheduler.stop(named)

    app.migrate()
    return app


def schedule(app: App, key: str = KEY) -> JobId:
    return app.scheduler.using(key=key).run_after(3600, "remind", "tea")


@pytest.mark.parametrize("canceler", ["cancel", "act", "act_sync"])
def test_a_function_cancels_the_job_that_holds_a_key(app: App, canceler: str) -> None:
    job_id, other = schedule(app), schedule(app, "reminder:8:24h")
    of_tenant = app.tenant("acme").scheduler.using(key=KEY).run_after(3600, "remind", "tea")
    app.call(canceler, named=KEY)
    assert job_of(app, job_id).state is JobState.CANCELED
    app.call(canceler, named=KEY)  # no job holds it any more
    assert job_of(app, other).state is JobState.PENDING
    assert app.tenant("acme").jobs.get(of_tenant).state == "pending"


def test_a_mutation_cancels_what_it_has_scheduled_itself(app: App) -> None:
    @app.mutation
    def move(ctx: MutationCtx) -> list[JobId]:
        keyed = ctx.scheduler.using(key=KEY)
        first = keyed.run_after(60, "remind", "1")
        ctx.scheduler.cancel(KEY)
        return [first, keyed.run_after(60, "remind", "2")]

    first, second = app.call(move)
    assert [job_of(app, each).state.value for each in (first, second)] == ["canceled", "pending"]


@pytest.mark.parametrize(("goes_on", "state"), [(False, "canceled"), (True, "pending")])
def test_a_job_with_a_key_cancels_the_successor_that_is_to_hold_it_and_not_itself(
    app: App, goes_on: bool, state: str
) -> None:
    @app.mutation(name="chain")
    def chain(ctx: MutationCtx, goes_on: bool) -> None:
        ctx.scheduler.cancel(KEY)  # only this job holds it: nothing to cancel
        keyed = ctx.scheduler.using(key=KEY)
        keyed.run_after(60, "remind", "1")
        ctx.scheduler.cancel(KEY)
        if goes_on:
            keyed.run_after(60, "remind", "2")

    with Engine(app) as engine:
        ended = engine.wait(app.scheduler.using(key=KEY).run_after(0, "chain", goes_on=goes_on))
    assert ended.state is JobState.SUCCESS
    assert [job.state for job in app.jobs.list(function="remind").jobs] == [state]


@pytest.mark.parametrize("kind", ["mutation", "plain", "async", "through a mutation"])
@pytest.mark.parametrize("on_conflict", ["keep", "replace", "error"])
def test_a_job_schedules_its_next_run_under_its_own_key(app: App, kind: str, on_conflict: OnConflict) -> None:
    @app.mutation(name="go on")
    def go_on(ctx: MutationCtx, left: int) -> None:
        ctx.scheduler.using(key=KEY, on_conflict=on_conflict).run_after(0, name, left)

    def chain(ctx: MutationCtx | SyncActionCtx, left: int) -> None:
        if left and kind == "through a mutation":
            ctx.run_mutation(go_on, left - 1)
        elif left:
            ctx.scheduler.using(key=KEY, on_conflict=on_conflict).run_after(0, name, left - 1)

    async def chain_async(ctx: ActionCtx, left: int) -> None:
        if left:
            await ctx.scheduler.using(key=KEY, on_conflict=on_conflict).run_after(0, name, left - 1)

    name = "chain"
    register: Any = app.mutation(name=name) if kind == "mutation" else app.action(name=name)
    register(chain_async if kind == "async" else chain)
    with Engine(app) as engine:
        app.scheduler.using(key=KEY).run_after(0, name, 2)
        engine.until(lambda: not app.jobs.count(state=["pending", "in_progress"]).number or None)
    chained = [(job.state, job.args["left"]) for job in app.jobs.list(function=name).jobs]
    assert chained == [("success", 0), ("success", 1), ("success", 2)]


def test_a_running_action_is_told_by_its_key(app: App) -> None:
    @app.action(name="watch")
    def watch(ctx: SyncActionCtx) -> bool:
        ctx.run_mutation(app.functions.resolve("cancel"), named=KEY)
        return ctx.cancel_requested

    with Engine(app) as engine:
        ended = engine.wait(app.scheduler.using(key=KEY).run_after(0, "watch"))
    assert ended.state is JobState.CANCELED


def test_app_jobs_takes_keys(app: App) -> None:
    job_id, at = schedule(app), datetime.now(UTC) + timedelta(days=1)
    assert app.jobs.get(KEY).id == app.jobs.reschedule(KEY, at).id == job_id
    assert (app.jobs.attempts(KEY), app.jobs.logs(KEY).lines) == ((), ())
    assert [each.id for each in app.jobs.request(KEY)] == [job_id]
    assert app.jobs.cancel(KEY).state == app.jobs.stop(KEY).state == "canceled"
    with pytest.raises(JobNotPending, match=f"job {job_id} is canceled"):
        app.jobs.run_now(KEY)
    again = app.jobs.retry(KEY)
    assert app.jobs.get(KEY).id == again != job_id
    second = app.scheduler.using(key=KEY, on_conflict="replace").run_after(60, "remind", "2")
    assert app.jobs.get(KEY).id == second


@pytest.mark.parametrize("call", ["get", "cancel", "stop", "run_now", "retry", "logs", "attempts", "request"])
def test_a_key_that_no_job_of_the_tenant_has_is_said(app: App, call: str) -> None:
    schedule(app)
    with pytest.raises(JobNotFound, match=f"no job has the key '{KEY}' in the tenant acme: none ever had it"):
        getattr(app.tenant("acme").jobs, call)(KEY)
    assert app.jobs.get(KEY).state == "pending"


@pytest.mark.parametrize("named", ["", "job_", "job_12", "job_" + "Z" * 28, "a\0b", "k" * 513, 7])
def test_what_is_neither_an_id_nor_a_key_is_refused(app: App, named: Any) -> None:
    for call in (app.scheduler.cancel, app.scheduler.stop, app.jobs.get, app.jobs.cancel):
        with pytest.raises(InvalidArguments, match=r"is not the id of a job|a key "):
            call(named)


def test_the_id_of_a_document_is_no_key_and_it_is_said_what_is(app: App) -> None:
    named = "orders_" + "0" * 28
    with pytest.raises(InvalidArguments, match=f"one of the table 'orders'; .* such as 'remind:{named}'"):
        app.jobs.get(named)
