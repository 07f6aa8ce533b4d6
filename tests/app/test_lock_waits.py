"""On PostgreSQL: functions wait for locks of other transactions, and none fails for that."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg_errors

from evertick import App, MutationCtx
from evertick.engine.jobs import recovery
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of

PATIENCE_S = 30.0
LACKS = "do $$ begin raise exception 'out of shared memory' using errcode = '53200'; end $$"


@pytest.fixture
def app(open_postgres_app: OpenApp) -> Iterator[App]:
    app = open_postgres_app()
    with psycopg.connect(app.database_url, autocommit=True) as connection:
        connection.execute("create table account (id int primary key, amount int)")
        connection.execute("insert into account values (1, 0), (2, 0)")
        yield app
        connection.execute("drop table account")


def amounts(app: App) -> list[int]:
    with psycopg.connect(app.database_url) as connection:
        return [amount for (amount,) in connection.execute("select amount from account order by id").fetchall()]


def run_together(app: App, calls: list[Any]) -> list[Any]:
    """The ended jobs of calls that are claimed together."""
    ids = app.scheduler.run_after_many(0, calls)
    with Engine(app) as engine:
        return [engine.wait(job_id) for job_id in ids]


def test_two_calls_that_wait_for_each_other_both_end(app: App) -> None:
    both_hold_one, has_met = threading.Barrier(2), set[int]()

    @app.mutation
    def transfer(ctx: MutationCtx, source: int, target: int) -> None:
        ctx.connection.execute("update account set amount = amount - 1 where id = %s", (source,))
        if source not in has_met:
            has_met.add(source)
            both_hold_one.wait(PATIENCE_S)
        ctx.connection.execute("update account set amount = amount + 1 where id = %s", (target,))

    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(app.call, transfer, *pair) for pair in ((1, 2), (2, 1))]
        for call in calls:
            call.result(PATIENCE_S)
    assert amounts(app) == [0, 0]


def test_so_do_two_that_replace_jobs_with_the_same_keys(app: App) -> None:
    """Real once: the statements were Evertick's own, and both calls took longer than a second."""
    both_hold_one, has_met = threading.Barrier(2), set[str]()

    @app.mutation
    def remind(ctx: MutationCtx) -> None:
        """Later."""

    @app.mutation
    def put_off(ctx: MutationCtx, first: str, second: str) -> None:
        ctx.scheduler.using(key=first, on_conflict="replace").run_after(3_600, remind)
        if first not in has_met:
            has_met.add(first)
            both_hold_one.wait(PATIENCE_S)
        ctx.scheduler.using(key=second, on_conflict="replace").run_after(3_600, remind)

    for key in "ab":
        app.scheduler.using(key=key).run_after(3_600, remind)
    with ThreadPoolExecutor() as threads:
        for call in [threads.submit(app.call, put_off, *pair) for pair in (("a", "b"), ("b", "a"))]:
            call.result(PATIENCE_S)
    assert len(app.jobs.list(state="pending", limit=10).jobs) == 2


def test_a_job_that_waits_holds_no_other_up_and_does_not_fail(app: App) -> None:
    @app.mutation
    def pay(ctx: MutationCtx, account: int) -> None:
        ctx.connection.execute("update account set amount = amount + 1 where id = %s", (account,))

    with psycopg.connect(app.database_url) as other, Engine(app) as engine:
        other.execute("update account set amount = amount + 10 where id = 1")
        first, *rest = app.scheduler.run_after_many(0, [pay.with_args(1), *[pay.with_args(2)] * 5])
        for job_id in rest:
            assert engine.wait(job_id).state is JobState.SUCCESS
        assert job_of(app, first).state in (JobState.PENDING, JobState.IN_PROGRESS)
        other.commit()
        job = engine.wait(first)
    assert job.state is JobState.SUCCESS
    assert amounts(app) == [11, 5]


@pytest.mark.parametrize(
    "statements",
    [
        ["select * from account where id = 1 for update nowait"],
        ["set local lock_timeout = '10ms'", "select * from account where id = 1 for update"],
    ],
    ids=["nowait", "lock_timeout"],
)
def test_a_function_that_says_how_long_it_waits_gets_the_error(app: App, statements: list[str]) -> None:
    @app.mutation
    def take(ctx: MutationCtx) -> str:
        try:
            with ctx.connection.transaction():
                for statement in statements:
                    ctx.connection.execute(statement)
        except pg_errors.LockNotAvailable:
            return "taken"
        return "free"

    with psycopg.connect(app.database_url) as other:
        other.execute("update account set amount = 1 where id = 1")
        assert app.call(take) == "taken"


def test_a_conflict_that_a_function_hides_runs_it_again(app: App) -> None:
    seen: list[bool] = []

    @app.mutation
    def look(ctx: MutationCtx) -> bool:
        try:
            with ctx.connection.transaction():
                ctx.connection.execute("select * from account where id = 1 for update")
        except psycopg.Error:
            seen.append(False)
            other.rollback()
        else:
            seen.append(True)
        return seen[-1]

    with psycopg.connect(app.database_url) as other:
        other.execute("update account set amount = 1 where id = 1")
        assert app.call(look)
    assert seen == [False, True]


def test_the_limit_is_in_force_after_a_function_before_has_failed(app: App) -> None:
    @app.mutation
    def limit(ctx: MutationCtx, then: str) -> str:
        [(text,)] = ctx.connection.execute("show lock_timeout").fetchall()
        if then == "fail":
            raise ValueError(text)
        if then == "change":
            ctx.connection.execute("set lock_timeout = '1h'")
        return str(text)

    turns = ["return", "fail", "return", "change", "return", "change", "fail", "return"]
    for job in run_together(app, [limit.with_args(turn) for turn in turns]):
        found = job.result if job.state is JobState.SUCCESS else str(job.error)
        assert "50ms" in str(found)


@pytest.mark.parametrize("times", [1, 3])
def test_what_the_server_lacks_for_a_moment_fails_nothing(app: App, times: int) -> None:
    runs: list[str] = []

    @app.mutation
    def change(ctx: MutationCtx, by: str) -> str:
        runs.append(by)
        ctx.connection.execute(LACKS if runs.count(by) <= times else "select 1")
        return "changed"

    assert app.call(change, "call") == "changed"
    [job] = run_together(app, [change.with_args("job")])
    assert job.state is JobState.SUCCESS
    assert len(runs) == 2 * (times + 1)


def test_a_function_for_which_the_server_always_lacks_something_fails(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "LOST_FOR_MS", 0)

    @app.mutation
    def change(ctx: MutationCtx, lacks: bool) -> None:
        ctx.connection.execute(LACKS if lacks else "select 1")

    jobs = run_together(app, [change.with_args(lacks) for lacks in (False, True, False)])
    assert [job.state for job in jobs] == [JobState.SUCCESS, JobState.FAILED, JobState.SUCCESS]
    assert "out of shared memory" in str(jobs[1].error)
