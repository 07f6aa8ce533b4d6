"""`ctx.session` in queries: reading the user's own tables by SQLAlchemy, inside the query's transaction."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from evertick import App, MutationCtx, QueryCtx
from evertick.base.errors import Misuse
from tests.app.conftest import OpenApp

pytestmark = pytest.mark.sql


class Base(DeclarativeBase): ...


class Account(Base):
    __tablename__ = "own_accounts"

    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


@pytest.fixture
def app(open_app: OpenApp) -> App:
    app = open_app()

    @app.mutation(timeout=30)
    def create(ctx: MutationCtx) -> None:
        Base.metadata.create_all(ctx.session.connection())
        ctx.session.add(Account(id=1, balance=10))

    @app.query(name="balances")
    def balances(ctx: QueryCtx) -> list[int]:
        return list(ctx.session.scalars(select(Account.balance).order_by(Account.id)))

    app.call(create)
    return app


def test_a_query_reads_by_a_session(app: App) -> None:
    for _ in range(3):
        assert app.call("balances") == [10]


def test_queries_inside_queries_and_mutations_read_in_the_same_transaction(app: App) -> None:
    @app.query
    def twice(ctx: QueryCtx) -> list[int]:
        first = ctx.session.scalars(select(Account.balance)).all()
        return [*first, *ctx.run_query(app.functions.resolve("balances"))]  # type: ignore[arg-type]

    @app.mutation
    def add(ctx: MutationCtx) -> list[int]:
        ctx.session.add(Account(id=2, balance=20))
        return ctx.run_query(app.functions.resolve("balances"))  # type: ignore[arg-type]

    assert app.call(twice) == [10, 10]
    assert app.call(add) == [10, 20]


def test_a_called_mutation_sees_what_the_session_of_its_caller_holds(app: App) -> None:
    @app.mutation
    def double(ctx: MutationCtx, account_id: int) -> None:
        ctx.session.get_one(Account, account_id).balance *= 2

    @app.mutation
    def add(ctx: MutationCtx) -> list[int]:
        ctx.session.add(Account(id=2, balance=20))
        ctx.run_mutation(double, 2)
        return ctx.run_query(app.functions.resolve("balances"))  # type: ignore[arg-type]

    assert app.call(add) == [10, 40]


def adds(session: Any) -> None:
    session.add(Account(id=2, balance=20))


def adds_and_looks(session: Any) -> None:
    session.add(Account(id=2, balance=20))
    session.scalars(select(Account)).all()


def changes(session: Any) -> None:
    session.get_one(Account, 1).balance = 11


def deletes(session: Any) -> None:
    session.delete(session.get_one(Account, 1))


def inserts(session: Any) -> None:
    session.execute(insert(Account).values(id=2, balance=20))


@pytest.mark.parametrize("write", [adds, adds_and_looks, changes, deletes, inserts])
def test_what_a_query_writes_by_its_session_is_refused(app: App, write: Callable[[Any], None]) -> None:
    @app.query
    def writes(ctx: QueryCtx) -> int:
        write(ctx.session)
        return 1

    with pytest.raises(Misuse, match=r"make this function a mutation|a mutation instead of a query"):
        app.call(writes)
    assert app.call("balances") == [10]


def test_an_attribute_that_is_set_back_is_no_write(app: App) -> None:
    @app.query
    def looks(ctx: QueryCtx) -> int:
        account = ctx.session.get_one(Account, 1)
        account.balance = 11
        account.balance = 10
        return int(account.balance)

    assert app.call(looks) == 10


def test_a_session_that_outlives_its_query_is_closed(app: App) -> None:
    kept: list[QueryCtx] = []

    @app.query
    def keeps(ctx: QueryCtx) -> int:
        kept.append(ctx)
        return len(ctx.session.scalars(select(Account)).all())

    assert app.call(keeps) == 1
    with pytest.raises(Misuse, match="has ended"):
        kept[0].session.scalars(select(Account)).all()


def test_an_error_of_the_querys_own_is_raised_as_it_is(app: App) -> None:
    @app.query
    def fails(ctx: QueryCtx) -> int:
        ctx.session.scalars(select(Account)).all()
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        app.call(fails)
    assert app.call("balances") == [10]
