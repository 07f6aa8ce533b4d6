"""On PostgreSQL: the COMMIT of a batch fails by what a function's own statements did, and harms that function alone."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from evertick import App, MutationCtx
from evertick.engine.jobs import recovery
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

TABLE = """
create table stock (code text);
create function late() returns trigger language plpgsql as $$ begin
    if new.code = 'slow' then perform pg_sleep(1); return null; end if;
    raise exception 'stock must not be negative' using errcode = new.code; end $$;
create constraint trigger late after insert on stock deferrable initially deferred for each row execute function late();
"""


@pytest.fixture
def app(open_postgres_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """An app with a mutation whose commit a trigger refuses with a code of its choice."""
    monkeypatch.setattr(recovery, "LOST_FOR_MS", 0)
    app = open_postgres_app()

    @app.mutation(name="sell")
    def sell(ctx: MutationCtx, code: str) -> None:
        ctx.connection.execute("insert into stock values (%s)", (code,))

    @app.mutation(name="innocent")
    def innocent(ctx: MutationCtx) -> None:
        ctx.db.insert("things", {})

    with psycopg.connect(app.database_url, autocommit=True) as connection:
        connection.execute(TABLE)
        yield app
        connection.execute("drop table stock; drop function late")


def among_others(app: App, code: str) -> tuple[str, list[str]]:
    """A mutation whose commit is refused, and those before and behind it in its batch."""
    calls: list[Any] = [app.functions.resolve("innocent").with_args() for _ in range(8)]
    calls[3:3] = [app.functions.resolve("sell").with_args(code)]
    ids = app.scheduler.run_after_many(0, calls)
    return ids.pop(3), ids


@pytest.mark.parametrize("code", ["55000", "55P03", "57014", "57P03", "08006", "XX000", "53100", "58030", "P0001"])
def test_it_fails_alone_whatever_code_its_trigger_raises(app: App, code: str) -> None:
    refused, others = among_others(app, code)
    with Engine(app) as engine:
        assert {engine.wait(job_id).state for job_id in others} == {JobState.SUCCESS}
        job = engine.wait(refused)
    assert job.state is JobState.FAILED
    assert "stock must not be negative" in str(job.error)


def test_one_that_says_it_met_another_for_ever_delays_no_other(app: App) -> None:
    refused, others = among_others(app, "40001")
    with Engine(app) as engine:
        assert {engine.wait(job_id).state for job_id in others} == {JobState.SUCCESS}
        app.jobs.cancel(refused)
        assert engine.wait(refused).state is JobState.CANCELED


@pytest.mark.parametrize("code", ["P0001", "slow"])
@pytest.mark.parametrize("statement", ["set constraints all immediate", "alter table stock add column more text"])
def test_one_that_looks_at_what_was_deferred_answers_for_its_own_alone(app: App, code: str, statement: str) -> None:
    """Among others their constraints would be checked in its statement, in its time, and end it."""

    @app.mutation(name="check", timeout=0.5)
    def check(ctx: MutationCtx) -> None:
        ctx.connection.execute(statement)

    calls: list[Any] = [app.functions.resolve(name).with_args() for name in ("innocent", "check", "innocent")]
    calls[1:1] = [app.functions.resolve("sell").with_args(code)]
    ids = app.scheduler.run_after_many(0, calls)
    with Engine(app) as engine:
        states = [engine.wait(job_id).state for job_id in ids]
    sold = JobState.SUCCESS if code == "slow" else JobState.FAILED
    assert states == [JobState.SUCCESS, sold, JobState.SUCCESS, JobState.SUCCESS]
