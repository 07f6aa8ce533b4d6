"""What is checked when a function is scheduled, and what only when it runs."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, JobId, MutationCtx, QueryCtx
from evertick.base.errors import FunctionNotFound, InvalidArguments, InvalidDelay, Misuse
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

FIVE_YEARS = timedelta(days=5 * 366)

app = App("validation")


@app.mutation
def write(ctx: MutationCtx, n: int = 1) -> None:
    ctx.db.insert("written", {"n": n, "job": ctx.job_id})


@app.mutation(internal=True)
def hidden(ctx: MutationCtx) -> None:
    ctx.db.insert("written", {"n": 0})


@app.query
def look(ctx: QueryCtx) -> int:
    return 1


@app.mutation
def after(ctx: MutationCtx, delay: Any) -> JobId:
    return ctx.scheduler.run_after(delay, write)


@app.mutation
def at_twice(ctx: MutationCtx, moment: datetime) -> tuple[JobId, JobId]:
    return ctx.scheduler.run_at(moment, write, 1), ctx.scheduler.run_at(moment.timestamp(), write, 2)


@app.mutation
def at_number(ctx: MutationCtx, moment: float) -> JobId:
    return ctx.scheduler.run_at(moment, write, 1)


@app.mutation
def by_name(ctx: MutationCtx, name: str) -> JobId:
    return ctx.scheduler.run_after(1, name)


@app.mutation
def catch_bad_name(ctx: MutationCtx) -> str:
    ctx.db.insert("written", {"n": 7})
    try:
        ctx.scheduler.run_after(1, "nosuch.fn")
    except FunctionNotFound as error:
        return str(error)
    return "nothing was raised"


@app.action
async def act_after(ctx: ActionCtx, delay: Any) -> JobId:
    return await ctx.scheduler.run_after(delay, write)


@fact("cvx-sf-009")
def test_a_past_moment_is_accepted_runs_at_once_and_is_kept_as_requested(world: OpenWorld) -> None:
    w = world(app)
    an_hour_ago = w.now - timedelta(hours=1)

    job_id = w.app.scheduler.run_at(an_hour_ago, write)
    w.advance(0)

    job = w.job(job_id)
    assert job.state is JobState.SUCCESS
    assert job.requested_at == an_hour_ago
    assert (job.due_at, job.completed_at) == (w.now, w.now)


def test_a_delay_counts_from_the_functions_clock(world: OpenWorld) -> None:
    w = world(app, at="2026-06-01T10:00:00.250Z")

    job = w.job(w.call(after, 2))

    assert job.requested_at == datetime(2026, 6, 1, 10, 0, 2, 250_000, tzinfo=UTC)


def test_a_datetime_and_its_number_are_the_same_moment(world: OpenWorld) -> None:
    w = world(app)

    first, second = w.call(at_twice, w.now + timedelta(minutes=3, milliseconds=7))

    assert w.job(first).requested_at == w.job(second).requested_at == w.now + timedelta(minutes=3, milliseconds=7)


def test_a_timedelta_and_its_seconds_are_the_same_delay(world: OpenWorld) -> None:
    w = world(app)
    ids = [w.app.scheduler.run_after(delay, write) for delay in (1.5, timedelta(seconds=1.5))]

    assert {w.job(job_id).due_at for job_id in ids} == {w.now + timedelta(milliseconds=1500)}


@fact("cvx-sf-011")
@pytest.mark.parametrize(
    ("delay", "says"),
    [
        (-1, "delay must not be negative"),
        (-0.001, "delay must not be negative"),
        (timedelta(seconds=-1), "delay must not be negative"),
        (float("nan"), "delay must be a finite number"),
        (float("inf"), "delay must be a finite number"),
        ("5", "delay must be seconds .a number. or a timedelta, not str"),
        (None, "delay must be seconds .a number. or a timedelta, not NoneType"),
        (True, "delay must be seconds .a number. or a timedelta, not bool"),
    ],
)
@pytest.mark.parametrize("caller", [after, act_after])
def test_a_delay_that_cannot_be_is_refused_by_name(world: OpenWorld, caller: Any, delay: object, says: str) -> None:
    w = world(app)

    def schedule() -> None:
        if isinstance(delay, timedelta):  # arguments that are `Any` travel as JSON, a timedelta would arrive as text
            w.app.scheduler.run_after(delay, write)
        else:
            w.call(caller, delay)

    with pytest.raises(InvalidDelay, match=says):
        schedule()
    assert w.jobs() == []


@fact("cvx-sf-013")
@pytest.mark.parametrize("delay", [timedelta(days=6 * 366), FIVE_YEARS + timedelta(milliseconds=1), timedelta.max])
def test_more_than_five_years_ahead_is_refused(world: OpenWorld, delay: timedelta) -> None:
    w = world(app)

    with pytest.raises(InvalidDelay, match="more than 5 years in the future"):
        w.app.scheduler.run_after(delay, write)
    assert w.jobs() == []


def test_more_than_five_years_ago_is_refused(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(InvalidDelay, match="more than 5 years in the past"):
        w.app.scheduler.run_at(w.now - FIVE_YEARS - timedelta(milliseconds=1), write)
    assert w.jobs() == []


def test_just_inside_five_years_passes_both_ways(world: OpenWorld) -> None:
    w = world(app)
    past = w.app.scheduler.run_at(w.now - FIVE_YEARS, write, 1)
    future = w.app.scheduler.run_after(FIVE_YEARS, write, 2)
    w.advance(0)

    assert w.job(past).state is JobState.SUCCESS
    assert (w.job(future).state, w.job(future).due_at) == (JobState.PENDING, w.now + FIVE_YEARS)


def test_a_moment_without_a_time_zone_is_refused_with_the_cure(world: OpenWorld) -> None:
    """JavaScript's dates always are moments; Python's need a zone for that."""
    w = world(app)

    with pytest.raises(InvalidDelay, match=r"no time zone.*ZoneInfo"):
        w.app.scheduler.run_at(datetime(2026, 6, 1, 12), write)


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), "2026-06-01", None, True])
def test_a_moment_that_is_none_is_refused(world: OpenWorld, moment: Any) -> None:
    w = world(app)

    with pytest.raises(InvalidDelay):
        w.app.scheduler.run_at(moment, write)
    assert w.jobs() == []


@fact("cvx-sf-015")
@pytest.mark.parametrize(
    "name",
    [
        "nosuch.fn",  # no such module
        "tests.conformance.test_validation.nosuch",  # no such function in it
        "",
        "nosuch:fn",
        "a b",
    ],
)
def test_an_unknown_function_is_refused_at_the_call_by_its_name(world: OpenWorld, name: str) -> None:
    w = world(app)

    with pytest.raises(FunctionNotFound, match=f"no function '{name}'"):
        w.call(by_name, name)
    assert w.jobs() == []


def test_a_mutation_may_catch_that_and_go_on(world: OpenWorld) -> None:
    w = world(app)

    assert "nosuch.fn" in w.call(catch_bad_name)
    assert [document["n"] for document in w.query("written")] == [7]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("app.sendx", "; did you mean app.send_message?"),
        ("send_mesage", "; did you mean app.send_message?"),
        ("app.remind", "; did you mean shop.reminded?"),
        ("app", ""),
        ("app.xyz", ""),
    ],
)
def test_names_that_may_have_been_meant_are_alike_in_their_last_part(written: str, meant: str) -> None:
    registry = App("near").functions
    for name in ("app.send_message", "app.order", "shop.reminded"):
        registry.add(App("other").mutation(name=name)(lambda ctx: None))

    with pytest.raises(FunctionNotFound, match=re.escape(f"no function {written!r} is registered{meant}") + "$"):
        registry.resolve(written)


def test_a_misspelt_name_is_answered_with_the_nearest(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(FunctionNotFound, match=r"did you mean tests.conformance.test_validation.write"):
        w.call(by_name, "tests.conformance.test_validation.writ")


def test_by_name_and_by_reference_are_the_same_function(world: OpenWorld) -> None:
    w = world(app)
    ids = [
        w.app.scheduler.run_after(1, write, n=2**62),
        w.app.scheduler.run_after(1, "tests.conformance.test_validation.write", n=2**62),
    ]
    w.drain()

    assert {(w.job(job_id).function, w.job(job_id).state) for job_id in ids} == {(write.name, JobState.SUCCESS)}
    assert [document["n"] for document in w.query("written")] == [2**62, 2**62]


def test_a_function_of_another_app_is_refused(world: OpenWorld) -> None:
    other = App("other")

    @other.mutation
    def elsewhere(ctx: MutationCtx) -> None: ...

    w = world(app)
    with pytest.raises(FunctionNotFound, match="registered with the app 'other'"):
        w.app.scheduler.run_after(1, elsewhere)


def test_a_plain_function_is_refused(world: OpenWorld) -> None:
    def plain() -> None: ...

    w = world(app)
    with pytest.raises(Misuse, match="decorated with"):
        w.app.scheduler.run_after(1, plain)  # type: ignore[arg-type]


def test_a_query_is_refused_when_it_is_scheduled(world: OpenWorld) -> None:
    """Convex takes it and lets it fail when it runs; refusing it at the call tells the author sooner."""
    w = world(app)

    with pytest.raises(Misuse, match="is a query, which has no effect"):
        w.app.scheduler.run_after(1, look)
    assert w.jobs() == []


@fact("cvx-sf-017")
def test_wrong_arguments_are_refused_when_they_are_scheduled(world: OpenWorld) -> None:
    """Convex checks only at run time. Evertick checks at the call, which is where the mistake is, and again when the
    job runs, because the code may have changed in between (the next test).
    """
    w = world(app)

    with pytest.raises(InvalidArguments, match=r"ArgumentValidationError: .*write.*n: input should be a valid integer"):
        w.app.scheduler.run_after(1, write, "x")  # type: ignore[arg-type]
    assert w.jobs() == []


@fact("cvx-sf-017")
def test_arguments_that_new_code_does_not_take_end_the_job_failed_without_running_it(world: OpenWorld) -> None:
    old, new = App("shop"), App("shop")

    @old.mutation(name="f")
    def old_f(ctx: MutationCtx, n: str) -> None: ...

    @new.mutation(name="f")
    def new_f(ctx: MutationCtx, n: int) -> None:
        ctx.db.insert("written", {"n": n})

    w = world(old)
    bad, good = (w.app.scheduler.run_after(10, old_f, text) for text in ("x", "8"))
    w.deploy(new)
    w.drain()

    assert w.job(bad).state is JobState.FAILED
    assert "ArgumentValidationError" in str(w.job(bad).error)
    assert w.job(good).state is JobState.SUCCESS
    assert [document["n"] for document in w.query("written")] == [8]


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((1, 2), {}, "takes 1 positional argument"),
        ((), {"m": 1}, "m: the function has no such parameter"),
        ((1,), {"n": 1}, "n given twice"),
    ],
)
def test_arguments_that_do_not_fit_the_signature_are_refused(
    world: OpenWorld, args: Any, kwargs: Any, says: str
) -> None:
    w = world(app)

    with pytest.raises(InvalidArguments, match=says):
        w.app.scheduler.run_after(1, write, *args, **kwargs)
    assert w.jobs() == []


@fact("cvx-sf-019")
def test_an_internal_function_can_be_scheduled(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(1, hidden)
    w.drain()

    assert w.job(job_id).state is JobState.SUCCESS


@pytest.mark.parametrize("moment", [1_800_000_000_000, 1_800_000_000_000.5])
def test_milliseconds_for_run_at_are_told_that_seconds_are_meant(world: OpenWorld, moment: float) -> None:
    w = world(app)

    with pytest.raises(
        InvalidDelay, match=r"takes seconds since the epoch, and .* looks like milliseconds: divide by 1000"
    ):
        w.call(at_number, moment)
