"""On PostgreSQL: a function that ends the transaction of its batch, however it gets past the check of its words."""

from typing import Any

import pytest

from evertick import App, MutationCtx, QueryCtx
from evertick.base.time_limit import FunctionTimeout
from evertick.errors import TransactionEnded
from evertick.functions import JobState
from evertick.store.postgres import transaction as watched
from evertick.store.postgres.transaction import PostgresTransaction
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


@pytest.fixture
def app(open_postgres_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> App:
    """An app whose functions may say what they like: as if the check of words were fooled."""
    monkeypatch.setattr(watched, "refuse_ending", lambda query, **options: None)
    app = open_postgres_app()

    @app.mutation(name="innocent")
    def innocent(ctx: MutationCtx) -> None:
        ctx.db.insert("things", {})
        ctx.connection.execute("select 1")

    @app.mutation(name="ends")
    def ends(ctx: MutationCtx, statement: str, catches: bool) -> None:
        ctx.db.insert("endings", {})
        try:
            ctx.connection.execute(statement)
        except Exception:
            if not catches:
                raise
            ctx.connection.execute("select 1")

    @app.query(name="count")
    def count(ctx: QueryCtx, table: str) -> int:
        return len(ctx.db.query(table).collect())

    return app


def rows(app: App, table: str) -> int:
    return int(app.call(app.functions.resolve("count"), table))


@pytest.mark.parametrize("catches", [False, True])
@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("select 1; commit", 1),
        ("select 1; commit; select 1/0", 1),
        ("commit; begin", 1),
        ("commit and chain", 1),
        ("rollback", 0),
        ("rollback; begin", 0),
    ],
)
def test_its_job_alone_fails_and_nothing_is_written_twice(
    app: App, statement: str, written: int, catches: bool
) -> None:
    calls: list[Any] = [app.functions.resolve("innocent").with_args()] * 3
    calls[1:1] = [app.functions.resolve("ends").with_args(statement, catches)]
    ids = app.scheduler.run_after_many(0, calls)
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]
    assert [job.state for job in jobs] == [JobState.SUCCESS, JobState.FAILED, JobState.SUCCESS, JobState.SUCCESS]
    assert str(jobs[1].error).startswith("TransactionEnded: a statement of the function's own has ended")
    assert (rows(app, "endings"), rows(app, "things")) == (written, 3)


def test_who_calls_it_is_told(app: App) -> None:
    with pytest.raises(TransactionEnded, match="what it committed stays"):
        app.call(app.functions.resolve("ends"), "commit", True)


def test_a_function_whose_time_is_over_when_it_asks_for_the_connection_leaves_it_watched_for_the_next(
    open_postgres_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real once: the next function of the batch got the connection unwatched, and its `commit` was executed."""
    app, command = open_postgres_app(), PostgresTransaction._command
    times = iter([True])

    def struck_once(transaction: PostgresTransaction, text: str) -> None:
        if text == "set local enable_seqscan = on" and next(times, False):
            raise FunctionTimeout
        command(transaction, text)

    @app.mutation(name="hurried")
    def hurried(ctx: MutationCtx) -> None:
        ctx.connection.execute("select 1")

    @app.mutation(name="ends")
    def ends(ctx: MutationCtx) -> None:
        ctx.db.insert("endings", {})
        ctx.connection.execute("commit")

    @app.query(name="count")
    def count(ctx: QueryCtx, table: str) -> int:
        return len(ctx.db.query(table).collect())

    ids = app.scheduler.run_after_many(0, [hurried.with_args(), ends.with_args()])
    monkeypatch.setattr(PostgresTransaction, "_command", struck_once)
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]
    assert [str(job.error).partition(":")[0] for job in jobs] == ["TimedOut", "Misuse"]
    assert rows(app, "endings") == 0
