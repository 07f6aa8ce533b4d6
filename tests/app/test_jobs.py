"""Jobs on a real worker and both databases: bulk, keys, completion, logs, missing functions."""

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, JobId, JobResult, MutationCtx, NonRetryable, QueryCtx, Retry, SyncActionCtx
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.records.jobs import JobFilter
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app whose jobs write what they are told."""
    app = open_app()

    @app.mutation(name="write")
    def write(ctx: MutationCtx, text: str) -> str:
        ctx.db.insert("texts", {"text": text})
        return text.upper()

    @app.mutation(name="fail")
    def fail(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": "never"})
        raise ValueError("boom")

    @app.query(name="texts")
    def texts(ctx: QueryCtx) -> list[str]:
        return [document["text"] for document in ctx.db.query("texts")]

    return app


def jobs_of(app: App, name: str | None = None) -> list[Any]:
    return app.environment.store.read(lambda transaction: transaction.list_jobs(JobFilter(name=name), limit=10_000))


def all_ended(app: App) -> list[Any] | None:
    jobs = jobs_of(app)
    return None if any(job.state in (JobState.PENDING, JobState.IN_PROGRESS) for job in jobs) else jobs


def test_jobs_of_every_kind_run(app: App) -> None:
    write: Any = app.functions.resolve("write")

    @app.action
    async def act(ctx: ActionCtx) -> str:
        return await ctx.run_mutation(write, "by an action")

    @app.action
    def plain(ctx: SyncActionCtx) -> str:
        return str(ctx.run_mutation(write, "by a plain action"))

    ids = [
        app.scheduler.run_after(0, write, "a"),
        app.scheduler.run_at(datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=365 * 5), "write", text="b"),
        app.scheduler.run_after(0, act),
        app.scheduler.run_after(0, plain),
        app.scheduler.run_after(0, "fail"),
    ]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]

    assert [job.state.value for job in jobs] == ["success"] * 4 + ["failed"]
    assert [job.result for job in jobs] == ["A", "B", "BY AN ACTION", "BY A PLAIN ACTION", None]
    assert sorted(app.call("texts")) == ["a", "b", "by a plain action", "by an action"]


def test_hundreds_in_bulk_run_once_each(app: App) -> None:
    write: Any = app.functions.resolve("write")
    ids = app.scheduler.run_after_many(0, [write.with_args(f"{n}") for n in range(700)])
    with Engine(app) as engine:
        engine.until(lambda: all_ended(app))

    assert len(set(ids)) == 700
    assert sorted(app.call("texts"), key=int) == [f"{n}" for n in range(700)]


def test_jobs_scheduled_while_the_worker_runs_start_at_once(app: App) -> None:
    write: Any = app.functions.resolve("write")
    with Engine(app) as engine:
        for text in ("a", "b", "c"):
            assert engine.wait(app.scheduler.run_after(0, write, text)).state is JobState.SUCCESS
    assert app.call("texts") == ["a", "b", "c"]


@pytest.mark.long
def test_a_self_scheduling_chain_ends(app: App) -> None:
    @app.mutation
    def hop(ctx: MutationCtx, left: int) -> None:
        ctx.db.insert("texts", {"text": f"{left}"})
        if left:
            ctx.scheduler.run_after(0, hop, left - 1)

    app.scheduler.run_after(0, hop, 30)
    with Engine(app) as engine:
        engine.until(lambda: all_ended(app))
    assert app.call("texts") == [f"{n}" for n in range(30, -1, -1)]


def test_completion_is_told_once_with_context_and_result_however_a_job_ends(app: App) -> None:
    @app.mutation
    def done(ctx: MutationCtx, job_id: JobId, context: dict[str, int], result: JobResult) -> None:
        ctx.db.insert("told", {"of": job_id, "n": context["n"], "how": [result.kind, result.value, result.error]})

    @app.query
    def told(ctx: QueryCtx) -> list[Any]:
        return [(each["of"], each["n"], *each["how"]) for each in ctx.db.query("told").collect()]

    @app.action
    async def wait_for_ever(ctx: ActionCtx) -> None:
        await asyncio.Event().wait()

    scheduler = app.scheduler.using(on_complete=done, context={"n": 7})
    good, bad = scheduler.run_after(0, "write", "a"), scheduler.run_after(0, "fail")
    never = scheduler.run_after(3600, "write", "never")
    app.scheduler.cancel(never)
    app.scheduler.cancel(never)
    with Engine(app) as engine:
        engine.until(lambda: all_ended(app))

    assert sorted(app.call(told)) == sorted(
        [
            (good, 7, "success", "A", None),
            (bad, 7, "failed", None, "ValueError: boom"),
            (never, 7, "canceled", None, None),
        ]
    )


def test_completion_is_told_of_the_ends_alone_that_it_is_for(app: App) -> None:
    told: list[tuple[str, str]] = []

    @app.mutation
    def done(ctx: MutationCtx, job_id: str, context: str, result: JobResult) -> None:
        told.append((context, result.kind))

    for ends in ("failed", ["success", "canceled"], ()):
        scheduler = app.scheduler.using(on_complete=done, on_complete_for=ends, context=f"{ends}")
        scheduler.run_after(0, "write", "a")
        scheduler.run_after(0, "fail")
        app.scheduler.cancel(scheduler.run_after(3600, "write", "never"))
    with Engine(app) as engine:
        engine.until(lambda: all_ended(app))

    some = "['success', 'canceled']"
    expected = [("failed", "failed"), (some, "success"), (some, "canceled")]
    assert sorted(told) == sorted(expected + [("()", kind) for kind in ("success", "failed", "canceled")])
    for wrong in ("pending", "fail", ["failed", "lost"], 3):
        with pytest.raises(Misuse, match="on_complete_for= takes one or several of success, failed, canceled"):
            app.scheduler.using(on_complete=done, on_complete_for=wrong)  # type: ignore[arg-type]


def test_completion_comes_after_the_last_attempt_alone(app: App) -> None:
    told: list[str] = []

    @app.mutation
    def done(ctx: MutationCtx, job_id: str, context: None, result: JobResult) -> None:
        told.append(str(result.error))

    retry = Retry(3, first=0.001)
    job_id = app.scheduler.using(retry=retry, on_complete=done).run_after(0, "fail")
    with Engine(app) as engine:
        engine.until(lambda: all_ended(app))

    assert job_of(app, job_id).attempt == 3
    assert told == ["ValueError: boom"]


def test_a_completion_that_fails_does_not_run_the_job_again(app: App) -> None:
    @app.mutation
    def done(ctx: MutationCtx, job_id: str, context: None, result: JobResult) -> None:
        raise RuntimeError("in the callback")

    job_id = app.scheduler.using(on_complete=done).run_after(0, "write", "once")
    with Engine(app) as engine:
        engine.until(lambda: all_ended(app))

    assert job_of(app, job_id).state is JobState.SUCCESS
    assert [job.state for job in jobs_of(app, done.name)] == [JobState.FAILED]
    assert app.call("texts") == ["once"]


def test_a_completion_that_cannot_take_what_it_is_told_is_refused_at_the_call(app: App) -> None:
    @app.mutation
    def too_few(ctx: MutationCtx, job_id: str) -> None: ...

    @app.mutation
    def wrong_context(ctx: MutationCtx, job_id: str, context: int, result: JobResult) -> None: ...

    with pytest.raises(InvalidArguments, match=r"must take \(job_id, context, result\)"):
        app.scheduler.using(on_complete=too_few).run_after(0, "write", "x")
    with pytest.raises(InvalidArguments, match="context"):
        app.scheduler.using(on_complete=wrong_context, context="x").run_after(0, "write", "x")
    with pytest.raises(Misuse, match="on_complete= takes a registered mutation or action"):
        app.scheduler.using(on_complete=app.functions.resolve("texts"))
    assert jobs_of(app) == []


def test_options_of_a_scheduler_are_its_own(app: App) -> None:
    plain = app.scheduler
    keyed = plain.using(key="k")
    ids = [plain.run_after(60, "write", "x"), keyed.run_after(60, "write", "x"), plain.run_after(60, "write", "x")]

    assert [job_of(app, job_id).key for job_id in ids] == [None, "k", None]
    with pytest.raises(Misuse, match="a key names one job"):
        write: Any = app.functions.resolve("write")
        keyed.run_after_many(60, [write.with_args("a"), write.with_args("b")])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(0),
        lambda: Retry(1001),
        lambda: Retry(3, first=0),
        lambda: Retry(3, first=-1),
        lambda: Retry(3, factor=0.5),
        lambda: Retry(3, first=10, cap=5),
        lambda: Retry(3, jitter=0.9),
    ],
)
def test_a_retry_policy_that_cannot_be_is_refused(make: Any) -> None:
    with pytest.raises(Misuse):
        make()


def test_keys_keep_replace_or_refuse_inside_one_mutation(app: App) -> None:
    write: Any = app.functions.resolve("write")

    @app.mutation
    def schedule(ctx: MutationCtx) -> list[JobId]:
        keyed = ctx.scheduler.using(key="k")
        first = keyed.run_after(60, write, "1")
        kept = keyed.run_after(60, write, "2")
        replaced = keyed.using(on_conflict="replace").run_after(60, write, "3")
        return [first, kept, replaced]

    first, kept, replaced = app.call(schedule)
    assert kept == first
    assert replaced != first
    assert [job_of(app, job_id).state.value for job_id in (first, replaced)] == ["canceled", "pending"]
    assert app.call(schedule)[0] == replaced


def test_a_key_is_free_again_when_its_job_has_ended(app: App) -> None:
    keyed = app.scheduler.using(key="k")
    with Engine(app) as engine:
        first = engine.wait(keyed.run_after(0, "write", "1"))
        second = engine.wait(keyed.run_after(0, "write", "2"))
    assert first.id != second.id
    assert app.call("texts") == ["1", "2"]


def test_log_lines_are_kept_with_the_run_and_passed_on(app: App, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "evertick.functions")

    @app.mutation
    def chatty(ctx: MutationCtx) -> None:
        ctx.log.debug("d %d", 1)
        ctx.log.info("i")
        ctx.log.warning("w %s", "x")
        ctx.log.error("100%")
        raise ValueError("after the lines")

    @app.action
    async def act(ctx: ActionCtx) -> None:
        ctx.log.info("an action speaks")

    ids = [app.scheduler.run_after(0, chatty), app.scheduler.run_after(0, act)]
    with Engine(app) as engine:
        first, second = (engine.wait(job_id) for job_id in ids)

    assert first.logs == ["debug: d 1", "info: i", "warning: w x", "error: 100%"]
    assert second.logs == ["info: an action speaks"]
    lines = [
        (r.levelname, r.getMessage(), r.__dict__["function"]) for r in caplog.records if r.name.endswith("functions")
    ]
    assert ("WARNING", "w x", chatty.name) in lines
    assert ("INFO", "an action speaks", act.name) in lines
    places = {(r.__dict__["job_id"], r.__dict__["attempt"]) for r in caplog.records if r.name.endswith("functions")}
    assert places == {(job_id, 1) for job_id in ids}


def test_a_line_that_cannot_be_written_does_not_end_the_function(app: App) -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no text")

        __repr__ = __str__

    @app.mutation
    def odd(ctx: MutationCtx) -> str:
        log: Any = ctx.log
        log.info("%d items", "many")
        log.info("%(n)d items", {"n": 7})
        log.info({"n": 7})
        log.info(None)
        log.info("%s", Mute())
        log.info(Mute())
        return "done"

    job_id = app.scheduler.run_after(0, odd)
    with Engine(app) as engine:
        job = engine.wait(job_id)

    assert job.result == "done"
    assert [line.removeprefix("info: ") for line in job.logs] == [
        "'%d items' cannot be written with 1 argument(s): TypeError",
        "7 items",
        "{'n': 7}",
        "None",
        "'%s' cannot be written with 1 argument(s): RuntimeError",
        "a Mute cannot be written with 0 argument(s): RuntimeError",
    ]


def test_errors_are_kept_with_type_message_and_the_users_part_of_the_traceback(app: App) -> None:
    class CardDeclined(NonRetryable): ...

    def deep() -> None:
        raise CardDeclined("sorry \ud800 \x00")

    @app.mutation
    def pay(ctx: MutationCtx) -> None:
        deep()

    job_id = app.scheduler.using(retry=Retry(5)).run_after(0, pay)
    with Engine(app) as engine:
        job = engine.wait(job_id)

    assert (job.state, job.attempt) == (JobState.FAILED, 1)
    assert job.error == "CardDeclined: sorry \ud800 \x00"
    trace = str(job.traceback)
    assert "in pay" in trace
    assert "in deep" in trace
    assert "evertick/app/execution/runner.py" not in trace


def test_the_message_of_a_group_has_the_errors_in_it_and_one_that_is_final_ends_the_job(app: App) -> None:
    """A TaskGroup raises a group, also for one error: its own text names no error."""

    @app.action
    async def charge(ctx: ActionCtx) -> None:
        async def decline() -> None:
            raise NonRetryable("no such card")

        async with asyncio.TaskGroup() as group:
            group.create_task(decline())

    job_id = app.scheduler.using(retry=Retry(5)).run_after(0, charge)
    with Engine(app) as engine:
        job = engine.wait(job_id)

    text = "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception): NonRetryable: no such card"
    assert (job.state, job.attempt, job.error) == (JobState.FAILED, 1, text)


def test_a_long_error_is_cut_in_the_middle(app: App) -> None:
    @app.mutation
    def shout(ctx: MutationCtx) -> None:
        raise ValueError("a" * 50_000 + "z")

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, shout))

    assert len(str(job.error)) < 17_000
    assert "characters left out" in str(job.error)
    assert str(job.error).endswith("z")


def test_a_job_nobody_knows_waits_for_a_worker_that_does(open_app: OpenApp) -> None:
    old, new = open_app("shop"), open_app("shop")

    @old.mutation(name="known to both")
    def known_to_old(ctx: MutationCtx) -> None: ...

    @new.mutation(name="known to both")
    def known_to_new(ctx: MutationCtx) -> None: ...

    @new.mutation(name="only in the new code")
    def fresh(ctx: MutationCtx) -> str:
        return "ran"

    waiting = new.scheduler.run_after(0, fresh)
    other = new.scheduler.run_after(0, known_to_new)
    new.close()
    with Engine(old) as engine:
        assert engine.wait(other).state is JobState.SUCCESS
        assert (job_of(old, waiting).state, job_of(old, waiting).blocked) == (JobState.PENDING, True)
    old.close()

    with Engine(new) as engine:
        job = engine.wait(waiting)
    assert (job.state, job.result, job.blocked) == (JobState.SUCCESS, "ran", False)


def test_stopping_waits_for_running_actions_and_loses_nothing(app: App) -> None:
    write: Any = app.functions.resolve("write")
    started = asyncio.Event()
    go_on = asyncio.Event()

    @app.action
    async def slow(ctx: ActionCtx) -> str:
        started.set()
        await go_on.wait()
        return await ctx.run_mutation(write, "ended in peace")

    job_id = app.scheduler.run_after(0, slow)

    async def main() -> None:
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await started.wait()
        worker.stop()
        go_on.set()
        await running

    asyncio.run(main())

    assert job_of(app, job_id).state is JobState.SUCCESS
    assert app.call("texts") == ["ended in peace"]


def test_a_job_is_shown_as_json_that_others_can_read(app: App) -> None:
    job_id = app.scheduler.run_after(60, "write", "x")

    @app.query
    def row(ctx: QueryCtx, job_id: str) -> str:
        return json.dumps(ctx.db.system.get(job_id))

    shown = json.loads(app.call(row, job_id))
    assert shown["name"] == "write"
    assert shown["args"] == [{"text": "x"}]
    assert shown["state"] == {"kind": "pending"}
