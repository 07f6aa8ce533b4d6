"""Calling functions from outside: answers, errors, time limits, conflicts, and idempotency keys."""

import asyncio
import random
import re
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from evertick import ActionCtx, App, JobId, MutationCtx, QueryCtx, Settings, SyncActionCtx
from evertick.base.errors import (
    AlreadyExists,
    FunctionNotFound,
    IdempotencyConflict,
    InvalidArguments,
    Misuse,
    SchemaMismatch,
    Unavailable,
    WriteConflict,
)
from evertick.engine.runtime.executors import retry_conflicts
from evertick.store.postgres import connections
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app that counts."""
    app = open_app()

    @app.mutation(name="add")
    def add(ctx: MutationCtx, n: int) -> int:
        ctx.db.insert("numbers", {"n": n})
        return total_of(ctx)

    @app.query(name="total")
    def total(ctx: QueryCtx) -> int:
        return total_of(ctx)

    return app


def total_of(ctx: QueryCtx) -> int:
    return sum(document["n"] for document in ctx.db.query("numbers"))


def test_a_call_answers_what_the_function_returns(app: App) -> None:
    @app.query
    def total_twice(ctx: QueryCtx) -> int:
        total: Any = app.functions.resolve("total")
        return int(ctx.run_query(total)) * 2

    assert app.call("add", 2) == 2
    assert app.call("add", n=3) == 5
    assert app.call(total_twice) == 10


def test_functions_call_others_by_their_names(app: App) -> None:
    """As from outside: a name is as good as the function, for every kind, and a wrong one is refused."""

    @app.mutation(name="twice")
    def twice(ctx: MutationCtx, n: int) -> int:
        ctx.run_mutation("add", n)
        ctx.scheduler.using(on_complete="noted").run_after(0, "add", n)
        return int(ctx.run_mutation("add", n=n)) + int(ctx.run_query("total"))

    @app.mutation(name="noted")
    def noted(ctx: MutationCtx, job_id: str, context: Any, result: Any) -> None: ...

    @app.action(name="threaded")
    def threaded(ctx: SyncActionCtx) -> int:
        return int(ctx.run_mutation("twice", 1)) + int(ctx.run_query("total"))

    @app.action(name="awaited")
    async def awaited(ctx: ActionCtx) -> int:
        assert await ctx.run_mutation("add", 1) == await ctx.run_query("total")
        return int(await ctx.run_action("awaited_too"))

    @app.action(name="awaited_too")
    async def awaited_too(ctx: ActionCtx) -> int:
        with pytest.raises(FunctionNotFound, match="no function 'ad' is registered; did you mean add"):
            await ctx.run_mutation("ad", 1)
        with pytest.raises(Misuse, match="'total' is not a mutation"):
            await ctx.run_mutation("total")
        return 7

    assert app.call("threaded") == 2 + 2 + 2
    assert app.call(awaited) == 7


def test_a_call_without_blocking_the_event_loop(app: App) -> None:
    add: Any = app.functions.resolve("add")
    total: Any = app.functions.resolve("total")

    @app.action
    async def act(ctx: ActionCtx) -> int:
        await ctx.run_mutation(add, 1)
        return await ctx.run_query(total)

    @app.action
    def plain(ctx: SyncActionCtx) -> int:
        ctx.run_mutation(add, 1)
        return int(ctx.run_query(total))

    async def main() -> list[int]:
        return [
            await app.call_async(add, 5),
            await app.call_async(total),
            await app.call_async(act),
            await app.call_async(plain),
        ]

    assert asyncio.run(main()) == [5, 5, 6, 7]
    assert (app.call(act), app.call(plain)) == (8, 9)


def test_a_call_raises_what_the_function_raises_and_writes_nothing(app: App) -> None:
    @app.mutation
    def fail(ctx: MutationCtx) -> None:
        ctx.db.insert("numbers", {"n": 100})
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        app.call(fail)
    with pytest.raises(LookupError, match="mine"):
        asyncio.run(app.call_async(fail))
    assert app.call("total") == 0


def test_a_call_with_wrong_arguments_is_refused(app: App) -> None:
    with pytest.raises(InvalidArguments, match="n: input should be a valid integer"):
        app.call("add", "x")


def test_a_query_cannot_write_by_the_back_door(app: App) -> None:
    @app.query
    def sneak(ctx: QueryCtx) -> None:
        ctx.connection.execute("delete from documents")

    app.call("add", 1)
    with pytest.raises(Exception, match=r"read.?only|must not write|query_only"):
        app.call(sneak)
    assert app.call("total") == 1


def test_a_call_inside_a_transaction_of_the_same_database_is_refused_with_the_cure(open_app: OpenApp) -> None:
    """SQLite has one writer; a call from inside a mutation would wait for itself. On PostgreSQL it would stay when the
    mutation fails, and happen again when the mutation is run again.
    """
    app = open_app()

    @app.mutation
    def inner(ctx: MutationCtx) -> None: ...

    @app.mutation
    def outer(ctx: MutationCtx, how: str) -> None:
        if how == "call":
            app.call(inner)
        elif how == "schedule":
            app.scheduler.run_after(60, inner)
        else:
            app.scheduler.cancel_all()

    for how in ("call", "schedule", "cancel"):
        with pytest.raises(Misuse, match=r"ctx\.run_mutation .* ctx\.scheduler"):
            app.call(outer, how)
    ids = [app.scheduler.run_after(0, outer, how) for how in ("call", "schedule", "cancel")]
    with Engine(app) as engine:
        errors = [str(engine.wait(job_id).error) for job_id in ids]
        assert app.call(inner) is None  # it is only inside that it is refused

    assert all(error.startswith("Misuse: this thread is already inside a transaction") for error in errors)


# -- time limits


def test_a_mutation_that_takes_too_long_is_ended_and_undone(open_app: OpenApp) -> None:
    app = open_app(settings=Settings(mutation_timeout=timedelta(milliseconds=100)))

    @app.mutation
    def busy(ctx: MutationCtx) -> None:
        ctx.db.insert("numbers", {"n": 1})
        while True:
            pass

    @app.query
    def busy_query(ctx: QueryCtx) -> None:
        while True:
            pass

    @app.query
    def total(ctx: QueryCtx) -> int:
        return total_of(ctx)

    with pytest.raises(TimeoutError, match=r"busy took longer than 0\.1 s; .*@app\.mutation\(timeout="):
        app.call(busy)
    with pytest.raises(TimeoutError, match=r"busy_query took longer"):
        app.call(busy_query)
    job_id = app.scheduler.run_after(0, busy)
    with Engine(app) as engine:
        job = engine.wait(job_id)

    assert str(job.error).startswith("TimedOut: tests.app.test_calls.busy took longer than 0.1 s")
    assert app.call(total) == 0


def test_no_except_of_the_users_outlives_the_time_limit(open_app: OpenApp) -> None:
    app = open_app(settings=Settings(mutation_timeout=timedelta(milliseconds=50)))

    @app.mutation
    def stubborn(ctx: MutationCtx) -> None:
        while True:
            try:
                for _ in range(1_000):
                    pass
            except Exception:
                continue

    with pytest.raises(TimeoutError, match="stubborn took longer"):
        app.call(stubborn)


def test_a_functions_own_limit_counts(open_app: OpenApp) -> None:
    app = open_app(settings=Settings(mutation_timeout=timedelta(seconds=30)))

    @app.mutation(timeout=0.05)
    def busy(ctx: MutationCtx) -> None:
        while True:
            pass

    @app.action(timeout=0.05)
    def busy_action(ctx: SyncActionCtx) -> None:
        while True:
            pass

    @app.action(timeout=0.05)
    async def idle_action(ctx: ActionCtx) -> None:
        await asyncio.Event().wait()

    ids = [app.scheduler.run_after(0, function) for function in (busy, busy_action, idle_action)]
    with Engine(app) as engine:
        errors = [str(engine.wait(job_id).error) for job_id in ids]

    assert all(error.startswith("TimedOut: ") and "longer than 0.05 s" in error for error in errors)


def test_a_function_that_was_ended_leaves_its_thread_in_order(open_app: OpenApp) -> None:
    app = open_app(settings=Settings(mutation_timeout=timedelta(milliseconds=50)))

    @app.mutation
    def work(ctx: MutationCtx, *, busy: bool) -> str:
        while busy:
            pass
        return "done"

    for _ in range(3):
        with pytest.raises(TimeoutError):
            app.call(work, busy=True)
        assert app.call(work, busy=False) == "done"


# -- conflicts


@pytest.mark.postgres
def test_concurrent_calls_on_postgres_all_count(postgres_url: str) -> None:
    app = App("test", database_url=postgres_url)

    @app.mutation
    def increment(ctx: MutationCtx) -> None:
        counter = ctx.db.query("counters").unique()
        if counter is None:
            ctx.db.insert("counters", {"value": 1})
        else:
            ctx.db.patch(counter["_id"], {"value": counter["value"] + 1})

    @app.query
    def value(ctx: QueryCtx) -> int:
        counter = ctx.db.query("counters").unique()
        return 0 if counter is None else int(counter["value"])

    app.migrate()

    def ten() -> None:
        done = 0
        while done < 10:
            try:
                app.call(increment)
            except WriteConflict:
                continue  # a caller is told after some tries, and may go on
            done += 1

    threads = [threading.Thread(target=ten) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert app.call(value) == 30
    app.close()


def test_a_conflict_reaches_a_caller_only_after_some_seconds() -> None:
    waits: list[float] = []
    left = 15

    def attempt() -> str:
        nonlocal left
        left -= 1
        if left >= 0:
            raise WriteConflict("another one was first")
        return "written"

    assert retry_conflicts(attempt, random.Random(1), sleep=waits.append) == "written"
    assert 6 < sum(waits) < 12
    left = 16
    with pytest.raises(WriteConflict):
        retry_conflicts(attempt, random.Random(1), sleep=waits.append)


@pytest.mark.parametrize(("has_waited", "attempts"), [(True, 2), (False, 16)])
def test_a_caller_is_told_of_a_lock_after_two_waits(has_waited: bool, attempts: int) -> None:
    now, made = 0.0, 0

    def attempt() -> None:
        nonlocal now, made
        now, made = now + 10, made + 1
        conflict = WriteConflict("another one holds the lock")
        conflict.has_waited = has_waited
        raise conflict

    with pytest.raises(WriteConflict):
        retry_conflicts(attempt, random.Random(1), sleep=lambda _: None, monotonic=lambda: now)
    assert made == attempts


@pytest.mark.parametrize("nowait", [False, True])
def test_a_lock_of_another_session_is_told_with_what_to_do(migrated_postgres_url: str, nowait: bool) -> None:
    statement = f"lock table public.busy in share mode{' nowait' if nowait else ''}"
    with psycopg.connect(migrated_postgres_url) as other, psycopg.connect(migrated_postgres_url) as ours:
        other.execute("create table if not exists public.busy (n integer)")
        other.commit()
        other.execute("lock table public.busy in access exclusive mode")
        ours.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable) as refused:
            ours.execute(statement.encode())
    told = connections.translated(connections.in_statement(refused.value, statement))
    assert isinstance(told, WriteConflict)
    assert told.has_waited is not nowait
    assert re.search(r"which holds a lock \(.*\); .*end the session that pg_blocking_pids", str(told))
    assert "LINE" not in str(told)


# -- idempotency


def test_a_call_under_a_key_happens_once_and_answers_the_same(app: App) -> None:
    add: Any = app.functions.resolve("add")

    assert [app.call_once("key", add, 5) for _ in range(3)] == [5, 5, 5]
    assert app.call("total") == 5
    assert app.call_once("another", add, 5) == 10


def test_a_call_under_a_key_is_awaited_on_an_event_loop(app: App) -> None:
    add: Any = app.functions.resolve("add")

    async def story() -> None:
        assert await app.aio.call_once("key", add, 5) == 5
        assert await asyncio.gather(*(app.aio.call_once("another", add, 5) for _ in range(4))) == [10] * 4
        assert await app.tenant("acme").aio.call_once("key", add, 7) == 7
        with pytest.raises(IdempotencyConflict):
            await app.aio.call_once("key", add, 6)
        with pytest.raises(Misuse, match="only mutations take an idempotency key"):
            await app.aio.call_once("key", app.functions.resolve("total"))  # type: ignore[arg-type]

    asyncio.run(story())
    assert app.call_once("key", add, 5) == 5
    assert app.call("total") == 10


def test_a_key_belongs_to_one_function_and_its_arguments(app: App) -> None:
    add: Any = app.functions.resolve("add")

    @app.mutation
    def other(ctx: MutationCtx, n: int) -> None: ...

    app.call_once("key", add, 5)
    with pytest.raises(IdempotencyConflict, match="'key' was used for add with other arguments"):
        app.call_once("key", add, 6)
    with pytest.raises(IdempotencyConflict):
        app.call_once("key", other, 5)
    with pytest.raises(Misuse, match="only mutations take an idempotency key"):
        app.call_once("key", app.functions.resolve("total"))  # type: ignore[arg-type]
    for key in ("", "k" * 513):
        with pytest.raises(Misuse, match="1 to 512 characters"):
            app.call_once(key, add, 5)


def test_a_call_under_a_key_answers_also_what_its_annotation_does_not_say(app: App) -> None:
    @app.mutation
    def add_text(ctx: MutationCtx) -> int:
        ctx.db.insert("texts", {"text": "once"})
        return "not a number"  # type: ignore[return-value]

    @app.query
    def count(ctx: QueryCtx) -> int:
        return len(ctx.db.query("texts").collect())

    answers: list[Any] = [app.call_once("key", add_text) for _ in range(2)]
    assert answers == ["not a number"] * 2
    assert app.call(count) == 1


def test_a_call_under_a_key_that_fails_can_be_made_again(app: App) -> None:
    failing = [True]

    @app.mutation
    def sometimes(ctx: MutationCtx) -> str:
        if failing:
            raise OSError(failing.pop())
        return "done"

    with pytest.raises(OSError, match="True"):
        app.call_once("key", sometimes)
    assert app.call_once("key", sometimes) == "done"


def test_calls_under_one_key_from_many_threads_happen_once(app: App) -> None:
    add: Any = app.functions.resolve("add")
    answers: list[int] = []
    barrier = threading.Barrier(4)

    def call() -> None:
        barrier.wait()
        answers.append(app.call_once("key", add, 5))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [5] * 4
    assert app.call("total") == 5


# -- databases that are not as they should be


@pytest.mark.postgres
def test_a_fleets_database_without_the_schema_says_what_to_run(postgres_url: str) -> None:
    app = App("test", database_url=postgres_url)

    with pytest.raises(SchemaMismatch, match="run `evertick migrate"):
        app.call(app.query(lambda ctx: None))
    assert app.migrate()
    assert app.migrate() == []
    assert app.call(app.query(name="again")(lambda ctx: 1)) == 1
    app.close()


def test_a_postgres_that_does_not_answer_says_so() -> None:
    app = App("test", database_url="postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2")

    with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
        app.call(app.query(lambda ctx: None))


def test_keys_of_jobs_and_their_conflicts(app: App) -> None:
    add: Any = app.functions.resolve("add")
    scheduler = app.scheduler.using(key="k")
    first: JobId = scheduler.run_after(60, add, 1)

    assert scheduler.run_after(60, add, 2) == first
    with pytest.raises(AlreadyExists, match=f"{first} holds the key 'k'"):
        scheduler.using(on_conflict="error").run_after(60, add, 3)
    second = scheduler.using(on_conflict="replace").run_after(0, add, 4)
    assert second != first
    with Engine(app) as engine:
        assert engine.wait(second).state.value == "success"
        third = scheduler.run_after(0, add, 5)
        assert engine.wait(third).state.value == "success"
    assert app.call("total") == 9
