"""A scheduler of `app.bind(session)` that is kept: over savepoints, rollbacks and the session's next transactions."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from evertick import App, MutationCtx
from evertick.store.sqlite.address import path_of
from tests.app.conftest import OpenApp

pytestmark = pytest.mark.sql


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app whose jobs say which they are."""
    app = open_app()

    @app.mutation(name="ok")
    def ok(ctx: MutationCtx, number: int) -> None: ...

    app.migrate()
    return app


@pytest.fixture
def engine(app: App) -> Iterator[Engine]:
    """SQLAlchemy's engine on the app's database."""
    url = app.database_url
    address = url if url.startswith("sqlite") else url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = create_engine(address, connect_args={"timeout": 5} if url.startswith("sqlite") else {})
    yield engine
    engine.dispose()


def numbers(app: App) -> list[int]:
    return sorted(job.args["number"] for job in app.jobs.list().jobs)


def test_a_job_of_a_savepoint_that_is_rolled_back_is_not_there(app: App, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        scheduler = app.bind(session)
        with pytest.raises(ValueError, match="undo"), session.begin_nested():
            scheduler.run_after(3600, "ok", 1)
            raise ValueError("undo")
        with session.begin_nested():
            scheduler.run_after(3600, "ok", 2)

    assert numbers(app) == [2]


def test_after_a_rollback_the_next_commit_is_the_jobs_own(app: App, engine: Engine) -> None:
    session = Session(engine)
    scheduler = app.bind(session)
    scheduler.run_after(3600, "ok", 1)
    session.rollback()
    scheduler.run_after(3600, "ok", 2)
    session.commit()
    scheduler.run_after(3600, "ok", 3)
    session.close()

    assert numbers(app) == [2]
    with Session(engine) as other, other.begin():
        other.execute(text("select 1"))
    assert numbers(app) == [2]
    if app.database_url.startswith("sqlite"):
        with closing(sqlite3.connect(Path(path_of(app.database_url) or ""), timeout=30)) as file:
            file.execute("create table mine (x)")  # no one holds the file
