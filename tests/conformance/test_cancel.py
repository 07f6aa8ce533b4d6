"""Cancel: what is pending never starts, what runs schedules nothing more, what is over stays as it is."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, JobId, MutationCtx, Retry, SyncActionCtx
from evertick.base.errors import InvalidArguments, Misuse
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.facts import fact
from tests.conformance.waiting import undeterred

OpenWorld = Callable[..., World]

app = App("cancel")


@app.mutation
def insert(ctx: MutationCtx, text: str) -> str:
    return ctx.db.insert("texts", {"text": text})


@app.mutation
def insert_too(ctx: MutationCtx, text: str) -> str:
    return ctx.db.insert("texts", {"text": text})


@app.mutation
def fail(ctx: MutationCtx) -> None:
    raise ValueError("boom")


@app.mutation
def cancel(ctx: MutationCtx, job_id: str) -> None:
    ctx.scheduler.cancel(job_id)


@app.mutation
def cancel_then_raise(ctx: MutationCtx, job_id: str) -> None:
    ctx.scheduler.cancel(job_id)
    raise ValueError("afterwards")


@app.mutation
def cancel_every(ctx: MutationCtx, raising: bool = False) -> int:
    count = ctx.scheduler.cancel_all()
    if raising:
        raise ValueError("after all not")
    return count


@app.action
async def act_cancel(ctx: ActionCtx, job_id: str) -> None:
    await ctx.scheduler.cancel(job_id)


@app.mutation
def schedule(ctx: MutationCtx, text: str) -> JobId:
    return ctx.scheduler.run_after(60, insert, text)


@app.mutation
def schedule_nested(ctx: MutationCtx, text: str) -> JobId:
    return ctx.run_mutation(schedule, text)


@app.action
async def act_schedule(ctx: ActionCtx, text: str) -> JobId:
    return await ctx.scheduler.run_after(60, insert, text)


@app.action
async def act_schedule_deeper(ctx: ActionCtx, text: str) -> JobId:
    await ctx.run_action(act_schedule, text)
    return await ctx.run_mutation(schedule_nested, text)


@app.action
async def long(ctx: ActionCtx) -> str:
    """Schedules before and after a pause of a minute, in every way there is."""
    await ctx.scheduler.run_after(120, insert, "before")
    await undeterred(60)
    await ctx.run_mutation(insert, "effect")
    await ctx.scheduler.run_after(60, insert, "directly")
    await ctx.scheduler.run_after_many(60, [insert.with_args("in bulk")])
    await ctx.run_mutation(schedule, "through a mutation")
    await ctx.run_mutation(schedule_nested, "through a nested mutation")
    await ctx.run_action(act_schedule, "through an action")
    await ctx.run_action(act_schedule_deeper, "through an action's mutation")
    return "returned"


def texts(w: World) -> list[str]:
    return [document["text"] for document in w.query("texts")]


@fact("cvx-sf-038")
@pytest.mark.parametrize("canceler", [cancel, act_cancel])
def test_a_pending_job_that_is_canceled_never_runs(world: OpenWorld, canceler: Any) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(10, insert, "never")
    w.advance(4)
    w.call(canceler, job_id)

    (row,) = w.query("_scheduled_functions")
    assert row["state"] == {"kind": "canceled"}
    assert row["completed_time"] == round(w.now.timestamp() * 1000)
    w.advance(3600)
    assert w.job(job_id).state is JobState.CANCELED
    assert texts(w) == []


def test_cancel_answers_nothing(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(10, insert, "never")

    answer: object = w.call(cancel, job_id)
    assert answer is None


@fact("cvx-sf-040")
def test_a_cancel_is_undone_with_its_mutation(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(10, insert, "runs")
    with pytest.raises(ValueError, match="afterwards"):
        w.call(cancel_then_raise, job_id)
    assert w.job(job_id).state is JobState.PENDING
    w.advance(10)

    assert texts(w) == ["runs"]


def test_a_job_can_be_scheduled_and_canceled_in_one_mutation(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": "never"})

    @local.mutation
    def both(ctx: MutationCtx) -> JobId:
        job_id = ctx.scheduler.run_after(0, target)
        ctx.scheduler.cancel(job_id)
        return job_id

    w = world(local)
    job_id = w.call(both)
    w.drain()

    assert w.job(job_id).state is JobState.CANCELED
    assert texts(w) == []


@fact("cvx-sf-042")
@pytest.mark.parametrize("canceler", [cancel, act_cancel])
def test_an_id_of_another_table_is_refused(world: OpenWorld, canceler: Any) -> None:
    w = world(app)
    message_id = w.call(insert, "a message")

    with pytest.raises(InvalidArguments, match=r"is not the id of a job: it is one of the table 'texts'"):
        w.call(canceler, message_id)


@pytest.mark.parametrize("value", ["", "job_", "job_123", "job_" + "0" * 27, "job_" + "Z" * 28])
def test_what_is_no_id_is_refused(world: OpenWorld, value: str) -> None:
    w = world(app)

    with pytest.raises(InvalidArguments, match="is not the id of a job: expected job_ and 28 characters"):
        w.call(cancel, value)


def test_an_unknown_id_of_the_right_table_is_ignored(world: OpenWorld) -> None:
    w = world(app)
    w.call(cancel, "job_" + "0" * 28)

    assert w.jobs() == []


@pytest.mark.parametrize("again", [cancel, act_cancel])
def test_cancel_of_what_is_over_changes_nothing(world: OpenWorld, again: Any) -> None:
    w = world(app)
    ids = [
        w.app.scheduler.run_after(1, insert, "done"),
        w.app.scheduler.run_after(1, fail),
        w.app.scheduler.run_after(100, insert, "never"),
    ]
    w.call(cancel, ids[2])
    w.advance(10)
    before = [w.job(job_id) for job_id in ids]
    for job_id in ids:
        w.call(again, job_id)

    assert [job.state.value for job in before] == ["success", "failed", "canceled"]
    assert [w.job(job_id) for job_id in ids] == before


def test_cancel_of_what_retention_has_removed_is_ignored(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(1, insert, "done")
    w.advance(timedelta(days=8))
    w.call(cancel, job_id)

    assert w.jobs() == []


@fact("cvx-sf-044")
def test_a_running_action_that_is_canceled_runs_on_but_its_result_counts_no_more(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, long)
    w.advance(30)
    assert w.job(job_id).state is JobState.IN_PROGRESS

    w.call(cancel, job_id)
    at_once = w.job(job_id)
    assert (at_once.state, at_once.completed_at) == (JobState.IN_PROGRESS, None)  # until its function has ended
    w.advance(31)

    assert texts(w) == ["effect"]
    ended = w.job(job_id)
    assert (ended.state, ended.result) == (JobState.CANCELED, None)


@fact("cvx-sf-046")
def test_what_an_action_scheduled_before_it_was_canceled_still_runs(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, long)
    w.advance(30)
    w.call(cancel, job_id)
    w.advance(3600)

    assert texts(w) == ["effect", "before"]


def test_what_a_canceled_action_schedules_is_born_canceled_through_all_its_calls(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, long)
    w.advance(30)
    w.call(cancel, job_id)
    w.advance(30)

    children = [job for job in w.jobs(insert) if job.args["text"] != "before"]
    assert [job.args["text"] for job in children] == [
        "directly",
        "in bulk",
        "through a mutation",
        "through a nested mutation",
        "through an action",
        "through an action's mutation",
        "through an action's mutation",
    ]
    assert {(job.state, job.completed_at, job.attempt) for job in children} == {(JobState.CANCELED, w.now, 0)}
    w.advance(3600)
    assert texts(w) == ["effect", "before"]


@pytest.mark.parametrize("nested", [False, True])
def test_a_mutation_that_cancels_the_action_that_called_it_schedules_nothing_more(
    world: OpenWorld, *, nested: bool
) -> None:
    local = App("local")

    @local.mutation
    def stop(ctx: MutationCtx, job_id: str, *, fails: bool = False) -> None:
        ctx.scheduler.cancel(job_id)
        if fails:
            raise ValueError("so it was not canceled after all")

    @local.mutation
    def work(ctx: MutationCtx) -> None:
        assert ctx.job_id is not None
        ctx.scheduler.run_after(60, insert_text, "before")
        with pytest.raises(ValueError, match="not canceled after all"):
            ctx.run_mutation(stop, ctx.job_id, fails=True)
        ctx.scheduler.run_after(60, insert_text, "before too")
        if nested:
            ctx.run_mutation(stop, ctx.job_id)
        else:
            ctx.scheduler.cancel(ctx.job_id)
        ctx.scheduler.run_after(60, insert_text, "after")

    @local.mutation
    def insert_text(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.action
    async def act(ctx: ActionCtx) -> None:
        await ctx.run_mutation(work)

    w = world(local)
    job_id = w.app.scheduler.run_after(0, act)
    w.drain()

    assert w.job(job_id).state is JobState.CANCELED
    assert texts(w) == ["before", "before too"]


def test_a_cancel_is_undone_with_the_nested_mutation_that_asked_for_it(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": "ran"})

    @local.mutation
    def cancel_and_raise(ctx: MutationCtx, job_id: str) -> None:
        ctx.scheduler.cancel(job_id)
        raise ValueError("afterwards")

    @local.mutation
    def parent(ctx: MutationCtx, job_id: str) -> str:
        with pytest.raises(ValueError, match="afterwards"):
            ctx.run_mutation(cancel_and_raise, job_id)
        job = ctx.db.system.get(job_id)
        assert job is not None
        return str(job["state"]["kind"])

    w = world(local)
    job_id = w.app.scheduler.run_after(60, target)
    assert w.call(parent, job_id) == "pending"
    w.drain()

    assert texts(w) == ["ran"]


def test_a_parent_that_succeeded_or_failed_does_not_affect_its_children(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.action
    async def parent(ctx: ActionCtx, *, fails: bool) -> None:
        await ctx.scheduler.run_after(60, target, f"of one that {'fails' if fails else 'succeeds'}")
        if fails:
            raise ValueError("boom")

    w = world(local)
    for fails in (True, False):
        w.app.scheduler.run_after(0, parent, fails=fails)
    w.drain()

    assert texts(w) == ["of one that fails", "of one that succeeds"]


def test_a_mutation_that_cancels_itself_is_told_to_raise_instead(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def suicide(ctx: MutationCtx) -> None:
        assert ctx.job_id is not None
        ctx.scheduler.cancel(ctx.job_id)

    w = world(local)
    job_id = w.app.scheduler.run_after(0, suicide)
    w.drain()

    assert w.job(job_id).error == "Misuse: a mutation cannot cancel itself; raise an exception instead"
    assert Misuse.code == "misuse"


def test_an_action_can_cancel_itself_and_runs_on(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.action
    def act(ctx: SyncActionCtx) -> None:
        assert ctx.job_id is not None
        ctx.scheduler.cancel(ctx.job_id)
        ctx.run_mutation(target, "runs on")
        ctx.scheduler.run_after(0, target, "never")

    w = world(local)
    job_id = w.app.scheduler.run_after(0, act)
    w.drain()

    assert w.job(job_id).state is JobState.CANCELED
    assert texts(w) == ["runs on"]


def test_a_cancel_that_commits_before_a_running_mutation_wins(world: OpenWorld) -> None:
    """The canceler shares the mutation's commit and is due a moment earlier."""
    w = world(app)
    victim = w.app.scheduler.run_at(w.now + timedelta(seconds=2), insert, "never")
    w.app.scheduler.run_at(w.now + timedelta(seconds=1), cancel, victim)
    w.kill()
    w.advance(10)
    w.restart()
    w.drain()

    assert w.job(victim).state is JobState.CANCELED
    assert texts(w) == []


def test_a_job_that_waits_for_its_next_attempt_can_be_canceled(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.using(retry=Retry(5, first=60)).run_after(0, fail)
    w.advance(1)
    assert (w.job(job_id).state, w.job(job_id).failures) == (JobState.PENDING, 1)
    w.call(cancel, job_id)
    w.advance(3600)

    assert (w.job(job_id).state, w.job(job_id).attempt) == (JobState.CANCELED, 1)


@fact("cvx-sf-048")
def test_cancel_all_of_a_function_spares_the_others(world: OpenWorld) -> None:
    w = world(app)
    victims = [w.app.scheduler.run_after(10 + n, insert, "never") for n in range(5)]
    spared = [w.app.scheduler.run_after(10, insert_too, "runs") for _ in range(3)]

    assert w.app.scheduler.cancel_all(insert) == 5
    assert {w.job(job_id).state for job_id in victims} == {JobState.CANCELED}
    assert {w.job(job_id).state for job_id in spared} == {JobState.PENDING}
    w.advance(60)
    assert texts(w) == ["runs"] * 3


def test_a_mutation_cancels_all_in_its_own_transaction_and_not_itself(world: OpenWorld) -> None:
    w = world(app)
    jobs = [w.app.scheduler.run_after(60, insert, str(n)) for n in range(3)]
    raising = w.app.scheduler.run_after(1, cancel_every, raising=True)
    w.advance(2)
    assert [each.state for each in w.jobs(insert)] == ["pending"] * 3

    cancels = w.app.scheduler.run_after(1, cancel_every)
    w.advance(2)

    states = {each.id: each.state for each in w.jobs()}
    assert [states[job] for job in jobs] == ["canceled"] * 3
    assert (states[raising], states[cancels]) == ("failed", "success")
    assert next(each.result for each in w.jobs(cancel_every) if each.id == cancels) == 3


def test_cancel_all_takes_a_range_of_due_times(world: OpenWorld) -> None:
    w = world(app)
    for minute in range(5):
        w.app.scheduler.run_after(60 * minute, insert, f"{minute}")

    count = w.app.scheduler.cancel_all(due_from=w.now + timedelta(minutes=1), due_until=w.now + timedelta(minutes=3))

    assert count == 2
    w.drain()
    assert texts(w) == ["0", "3", "4"]


def test_cancel_all_ends_thousands_in_pages_and_leaves_what_is_over(world: OpenWorld) -> None:
    w = world(app)
    done = w.app.scheduler.run_after(0, insert, "done")
    w.advance(0)
    w.app.scheduler.run_after_many(60, [insert.with_args("never") for _ in range(2_500)])

    assert w.app.scheduler.cancel_all() == 2_500
    assert w.app.scheduler.cancel_all() == 0
    assert w.job(done).state is JobState.SUCCESS
    w.drain()
    assert texts(w) == ["done"]


def test_cancel_all_reaches_running_actions_and_functions_that_are_gone(world: OpenWorld) -> None:
    w = world(app)
    running = w.app.scheduler.run_after(0, long)
    waiting = w.app.scheduler.run_after(60, insert, "never")
    w.advance(1)
    w.deploy(App("cancel"))
    w.advance(1)

    assert w.app.scheduler.cancel_all("tests.conformance.test_cancel.insert") == 2
    assert w.job(waiting).state is JobState.CANCELED
    assert w.job(running).state is JobState.FAILED  # its worker died in the deploy


def test_an_action_can_cancel_all(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx) -> None: ...

    @local.action
    async def sweep(ctx: ActionCtx) -> int:
        return await ctx.scheduler.cancel_all(target)

    w = world(local)
    for _ in range(3):
        w.app.scheduler.run_after(60, target)

    assert w.call(sweep) == 3
    assert {job.state for job in w.jobs(target)} == {JobState.CANCELED}
