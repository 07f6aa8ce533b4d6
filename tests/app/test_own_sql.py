"""The user's own tables in one commit with jobs: `ctx.connection`, `ctx.session`, `app.bind`."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from evertick import App, JobId, MutationCtx, QueryCtx
from evertick.base.errors import AlreadyExists, InvalidArguments, InvalidDelay, Misuse, NotFound
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of, whole_jobs

pytestmark = pytest.mark.sql


class Base(DeclarativeBase): ...


class Account(Base):
    __tablename__ = "own_accounts"

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(unique=True)
    balance: Mapped[int]


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app on a database in which the user has a table of accounts."""
    app = open_app()

    @app.mutation(timeout=30)
    def create(ctx: MutationCtx) -> None:
        ctx.connection.execute(
            "create table own_accounts (id integer primary key, owner text unique not null, balance integer not null)"
        )

    @app.query(name="count_own")
    def count(ctx: QueryCtx) -> int:
        return int(ctx.connection.execute("select count(*) from own_accounts").fetchone()[0])

    app.call(create)
    return app


def placeholder(ctx: QueryCtx) -> str:
    return "?" if isinstance(ctx.connection._unit.connection, sqlite3.Connection) else "%s"


def count_own(app: App) -> int:
    return int(app.call("count_own"))


def count_documents(app: App) -> int:
    return len(app.db.query("t").collect())


def jobs_of(app: App) -> list[Any]:
    return app.environment.store.read(whole_jobs)


def test_own_rows_documents_and_jobs_are_one_commit(app: App) -> None:
    @app.mutation
    def all_three(ctx: MutationCtx, owner: str, *, fails: bool) -> int:
        ctx.db.insert("t", {"owner": owner})
        ctx.connection.execute(
            f"insert into own_accounts (id, owner, balance) values ({len(owner)}, {placeholder(ctx)}, 5)", (owner,)
        )
        ctx.scheduler.run_after(60, all_three, owner, fails=False)
        if fails:
            raise ValueError("undone")
        return len(ctx.db.query("t").collect())

    with pytest.raises(ValueError, match="undone"):
        app.call(all_three, "ada", fails=True)
    assert (count_own(app), len(jobs_of(app))) == (0, 0)

    assert app.call(all_three, "bob", fails=False) == 1
    assert (count_own(app), len(jobs_of(app))) == (1, 1)


def test_own_rows_of_a_nested_mutation_that_raises_are_undone_alone(app: App) -> None:
    @app.mutation
    def put(ctx: MutationCtx, number: int, *, fails: bool) -> None:
        ctx.connection.execute(f"insert into own_accounts (id, owner, balance) values ({number}, 'o{number}', 5)")
        if fails:
            raise ValueError("undone")

    @app.mutation
    def parent(ctx: MutationCtx) -> None:
        ctx.run_mutation(put, 1, fails=False)
        with pytest.raises(ValueError, match="undone"):
            ctx.run_mutation(put, 2, fails=True)
        ctx.run_mutation(put, 3, fails=False)

    app.call(parent)
    assert count_own(app) == 2


def test_own_rows_of_jobs_that_share_a_commit_stand_or_fall_one_by_one(app: App) -> None:
    @app.mutation
    def put(ctx: MutationCtx, number: int) -> None:
        ctx.connection.execute(f"insert into own_accounts (id, owner, balance) values ({number}, 'o{number}', 5)")
        if number % 2:
            raise ValueError("odd")

    ids = app.scheduler.run_after_many(0, [put.with_args(n) for n in range(6)])
    with Engine(app) as engine:
        states = [engine.wait(job_id).state.value for job_id in ids]

    assert states == ["success", "failed"] * 3
    assert count_own(app) == 3


def test_a_users_own_error_of_the_database_is_the_users(app: App) -> None:
    @app.mutation
    def twice(ctx: MutationCtx) -> None:
        for number in (1, 2):
            ctx.connection.execute(f"insert into own_accounts (id, owner, balance) values ({number}, 'same', 5)")

    @app.mutation
    def mistyped(ctx: MutationCtx) -> None:
        ctx.connection.execute("selekt 1")

    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.UniqueViolation)):
        app.call(twice)
    with pytest.raises((sqlite3.OperationalError, psycopg.errors.SyntaxError)):
        app.call(mistyped)
    ids = [app.scheduler.run_after(0, twice), app.scheduler.run_after(0, mistyped)]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]

    assert [str(job.error).split(":")[0] for job in jobs] in (
        ["IntegrityError", "OperationalError"],
        ["UniqueViolation", "SyntaxError"],
    )
    assert count_own(app) == 0


@pytest.mark.parametrize("method", ["commit", "rollback", "close"])
def test_the_transaction_cannot_be_ended_by_the_user(app: App, method: str) -> None:
    @app.mutation
    def end(ctx: MutationCtx) -> None:
        getattr(ctx.connection, method)()

    @app.mutation
    def change(ctx: MutationCtx) -> None:
        ctx.connection.autocommit = True

    with pytest.raises(Misuse, match="the transaction belongs to the mutation"):
        app.call(end)
    with pytest.raises(Misuse, match="cannot be set"):
        app.call(change)


def test_a_sqlalchemy_session_is_part_of_the_commit(app: App) -> None:
    @app.mutation
    def open_account(ctx: MutationCtx, owner: str, *, fails: bool) -> None:
        ctx.session.add(Account(id=1, owner=owner, balance=10))
        ctx.db.insert("t", {"owner": owner})
        ctx.scheduler.run_after(60, open_account, owner, fails=False)
        if fails:
            raise ValueError("undone")

    @app.mutation
    def rich(ctx: MutationCtx) -> list[str]:
        for account in ctx.session.scalars(select(Account)):
            account.balance *= 10
        ctx.session.flush()
        return list(ctx.session.scalars(select(Account.owner).where(Account.balance >= 100)))

    with pytest.raises(ValueError, match="undone"):
        app.call(open_account, "ada", fails=True)
    assert (count_own(app), len(jobs_of(app))) == (0, 0)
    app.call(open_account, "bob", fails=False)
    assert (count_own(app), len(jobs_of(app))) == (1, 1)
    assert app.call(rich) == ["bob"]


def test_commit_and_rollback_of_the_session_end_only_their_part(app: App) -> None:
    @app.mutation
    def parts(ctx: MutationCtx, *, fails: bool) -> None:
        ctx.session.add(Account(id=1, owner="kept", balance=1))
        ctx.session.commit()
        ctx.session.add(Account(id=2, owner="dropped", balance=1))
        ctx.session.flush()
        ctx.session.rollback()
        if fails:
            raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        app.call(parts, fails=True)
    assert count_own(app) == 0
    app.call(parts, fails=False)
    assert count_own(app) == 1


@pytest.mark.parametrize("order", ["before", "after", "sent after"])
@pytest.mark.parametrize("end", ["rollback", "close"])
def test_a_session_that_would_undo_half_of_the_function_is_refused(app: App, order: str, end: str) -> None:
    @app.mutation
    def roll_back(ctx: MutationCtx) -> None:
        if order == "before":
            ctx.db.insert("t", {})
        ctx.session.add(Account(id=1, owner="dropped", balance=1))
        ctx.session.flush()
        if order != "before":
            ctx.db.insert("t", {})
        if order == "sent after":
            ctx.db.system.query("_scheduled_functions").first()  # the document goes to the database
        getattr(ctx.session, end)()

    with pytest.raises(Misuse, match=r"cannot roll back here: .* part of what the function did would stay"):
        app.call(roll_back)
    assert (count_own(app), count_documents(app)) == (0, 0)


def test_a_rollback_of_the_session_counts_from_its_last_commit(app: App) -> None:
    @app.mutation
    def roll_back(ctx: MutationCtx) -> None:
        ctx.db.insert("t", {})
        ctx.session.add(Account(id=1, owner="kept", balance=1))
        ctx.session.commit()
        ctx.session.add(Account(id=2, owner="dropped", balance=1))
        ctx.session.flush()
        ctx.session.rollback()

    app.call(roll_back)
    assert (count_own(app), count_documents(app)) == (1, 1)


def test_a_write_that_fails_is_raised_as_what_it_is_and_is_no_half(app: App) -> None:
    @app.mutation
    def twice(ctx: MutationCtx, *, catches: bool) -> None:
        ctx.db.insert("t", {})
        ctx.session.add_all([Account(id=number, owner="same", balance=1) for number in (1, 2)])
        try:
            ctx.session.flush()
        except sqlalchemy.exc.IntegrityError:
            if not catches:
                raise
            ctx.session.rollback()

    with pytest.raises(sqlalchemy.exc.IntegrityError):
        app.call(twice, catches=False)
    with pytest.raises(Misuse, match="cannot roll back here"):
        app.call(twice, catches=True)
    assert (count_own(app), count_documents(app)) == (0, 0)


def test_a_part_of_the_sessions_work_can_be_undone_by_itself(app: App) -> None:
    @app.mutation
    def try_parts(ctx: MutationCtx) -> None:
        for number in range(4):
            try:
                with ctx.session.begin_nested():
                    ctx.session.add(Account(id=number, owner=f"o{number // 2}", balance=1))
            except sqlalchemy.exc.IntegrityError:
                ctx.db.insert("refused", {"number": number})

    app.call(try_parts)
    assert count_own(app) == 2


def test_sessions_of_two_threads_do_not_meet(app: App) -> None:
    """On PostgreSQL two mutations run at once, each on its own connection."""
    at_once = not app.database_url.startswith("sqlite")
    barrier = threading.Barrier(2)
    seen: list[int] = []

    @app.mutation(timeout=30)
    def put(ctx: MutationCtx, number: int) -> None:
        if at_once:
            barrier.wait()
        ctx.session.add(Account(id=number, owner=f"o{number}", balance=1))
        ctx.session.flush()
        if at_once:
            barrier.wait()
        seen.extend(ctx.session.scalars(select(Account.id).where(Account.id == number)))

    threads = [threading.Thread(target=app.call, args=(put, number)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(seen) == [1, 2]
    assert count_own(app) == 2


def test_a_session_that_cannot_be_written_fails_the_mutation(app: App) -> None:
    @app.mutation
    def twice(ctx: MutationCtx) -> None:
        ctx.db.insert("t", {})
        for number in (1, 2):
            ctx.session.add(Account(id=number, owner="same", balance=1))

    job_id = app.scheduler.run_after(0, twice)
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        app.call(twice)
    with Engine(app) as engine:
        assert str(engine.wait(job_id).error).startswith("IntegrityError")
    assert count_own(app) == 0


def test_sessions_of_jobs_that_share_a_commit_stand_or_fall_one_by_one(app: App) -> None:
    @app.mutation
    def put(ctx: MutationCtx, number: int) -> None:
        ctx.session.add(Account(id=number, owner=f"o{number % 4}", balance=number))

    ids = app.scheduler.run_after_many(0, [put.with_args(n) for n in range(6)])
    with Engine(app) as engine:
        states = [engine.wait(job_id).state.value for job_id in ids]

    assert states == ["success"] * 4 + ["failed"] * 2
    assert count_own(app) == 4


# -- app.bind


@contextmanager
def driver(url: str) -> Iterator[Any]:
    """A connection of the driver's own."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            yield connection
    else:
        with psycopg.connect(url) as connection:
            yield connection


@contextmanager
def engine_of(url: str) -> Iterator[Any]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


@contextmanager
def core(url: str) -> Iterator[Any]:
    with engine_of(url) as engine, engine.connect() as connection:
        yield connection


@contextmanager
def orm(url: str) -> Iterator[Any]:
    with engine_of(url) as engine, Session(engine) as session:
        yield session


Binding = Callable[[str], AbstractContextManager[Any]]


@pytest.fixture(params=[driver, core, orm])
def binding(request: pytest.FixtureRequest) -> Binding:
    """Ways to have a transaction of one's own."""
    made: Binding = request.param
    return made


def insert_account(target: Any, owner: str) -> None:
    statement = f"insert into own_accounts (id, owner, balance) values ({len(owner)}, '{owner}', 1)"
    target.execute(text(statement) if type(target).__module__.startswith("sqlalchemy") else statement)


@pytest.fixture
def bound_app(app: App) -> App:
    @app.mutation(name="target")
    def target(ctx: MutationCtx, n: int) -> None:
        ctx.db.insert("ran", {"n": n})

    return app


def test_a_bound_job_is_there_exactly_if_the_foreign_transaction_commits(
    bound_app: App, database_url: str, binding: Binding
) -> None:
    app = bound_app
    with binding(database_url) as mine:
        insert_account(mine, "ada")
        dropped = app.bind(mine).run_after(0, "target", 1)
        mine.rollback()
        assert jobs_of(app) == []
        insert_account(mine, "bobby")
        kept = app.bind(mine).run_after(0, "target", 2)
        mine.commit()

    assert [job.id for job in jobs_of(app)] == [kept]
    assert dropped != kept
    assert count_own(app) == 1


def test_a_bound_job_needs_no_statement_of_the_users_to_be_undone(
    bound_app: App, database_url: str, binding: Binding
) -> None:
    with binding(database_url) as mine:
        bound_app.bind(mine).run_after(0, "target", 1)
        mine.rollback()

    assert jobs_of(bound_app) == []


def test_a_bound_job_runs_after_the_commit(bound_app: App, database_url: str, binding: Binding) -> None:
    app = bound_app
    with Engine(app) as engine, binding(database_url) as mine:
        job_id = app.bind(mine).run_after(0, "target", 2)
        mine.commit()
        assert engine.wait(job_id).state.value == "success"


def test_bound_schedulers_have_every_verb(bound_app: App, database_url: str, binding: Binding) -> None:
    app = bound_app
    target = app.functions.resolve("target")
    with binding(database_url) as mine:
        scheduler = app.bind(mine)
        at = datetime(2030, 1, 1, tzinfo=UTC)
        first = scheduler.run_at(at, target, 1)
        many = scheduler.run_after_many(60, [target.with_args(n) for n in (2, 3)])
        keyed = scheduler.using(key="k").run_after(60, target, 4)
        same = scheduler.using(key="k").run_after(60, target, 5)
        with pytest.raises(AlreadyExists):
            scheduler.using(key="k", on_conflict="error").run_after(60, target, 6)
        scheduler.cancel(many[0])
        mine.commit()

    assert same == keyed
    assert [job_of(app, job_id).state.value for job_id in (first, *many, keyed)] == [
        "pending", "canceled", "pending", "pending",
    ]  # fmt: skip
    assert job_of(app, first).requested_at == at


def test_a_bound_cancel_is_undone_with_the_foreign_transaction(
    bound_app: App, database_url: str, binding: Binding
) -> None:
    app = bound_app
    job_id = app.scheduler.run_after(60, "target", 1)
    with binding(database_url) as mine:
        app.bind(mine).cancel(job_id)
        mine.rollback()
    assert job_of(app, job_id).state.value == "pending"


def test_a_bound_call_is_checked_like_any_other(bound_app: App, database_url: str, binding: Binding) -> None:
    with binding(database_url) as mine:
        scheduler = bound_app.bind(mine)
        calls: list[tuple[Callable[[], object], type[Exception]]] = [
            (lambda: scheduler.run_after(-1, "target", 1), InvalidDelay),
            (lambda: scheduler.run_after(1, "target", "x"), InvalidArguments),
            (lambda: scheduler.run_after(1, "nosuch"), NotFound),
        ]
        for call, error in calls:
            with pytest.raises(error):
                call()
        mine.commit()
    assert jobs_of(bound_app) == []


def test_a_savepoint_of_the_users_takes_bound_jobs_back(bound_app: App, database_url: str) -> None:
    app = bound_app
    with orm(database_url) as session:
        kept = app.bind(session).run_after(60, "target", 1)
        with pytest.raises(ValueError, match="inner"), session.begin_nested():
            app.bind(session).run_after(60, "target", 2)
            raise ValueError("inner")
        session.commit()

    assert [job.id for job in jobs_of(app)] == [kept]


@pytest.mark.parametrize("target", [None, 5, "sqlite:///x.db"])
def test_what_cannot_be_bound_is_refused(bound_app: App, target: Any) -> None:
    with pytest.raises(Misuse, match="give a sqlite3 or psycopg connection"):
        bound_app.bind(target)


def test_a_database_without_evertick_is_refused_with_the_cure(bound_app: App) -> None:
    with closing(sqlite3.connect(":memory:")) as mine, pytest.raises(Misuse, match=r"no Evertick tables.*migrate"):
        bound_app.bind(mine).run_after(0, "target", 1)


def test_a_bound_job_on_a_connection_in_autocommit_is_there_at_once(bound_app: App, database_url: str) -> None:
    if database_url.startswith("sqlite"):
        mine: Any = sqlite3.connect(database_url.removeprefix("sqlite:///"), isolation_level=None)
    else:
        mine = psycopg.connect(database_url, autocommit=True)
    with closing(mine):
        job_id: JobId = bound_app.bind(mine).run_after(60, "target", 1)

    assert [job.id for job in jobs_of(bound_app)] == [job_id]


@pytest.mark.parametrize("of", ["connection", "session", "session.connection"])
def test_binding_to_what_belongs_to_a_function_names_its_scheduler(open_app: OpenApp, of: str) -> None:
    app = open_app()
    app.migrate()

    @app.mutation
    def mutation(ctx: MutationCtx) -> None:
        found: Any = ctx.connection if of == "connection" else ctx.session
        app.bind(found.connection() if of == "session.connection" else found).run_after(0, mutation)

    with pytest.raises(Misuse, match=r"in a mutation use ctx\.scheduler"):
        app.call(mutation)
    assert app.jobs.list().jobs == ()
