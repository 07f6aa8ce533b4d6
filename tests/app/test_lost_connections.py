"""On PostgreSQL: a mutation whose own statement loses the connection again and again, and what is an outage instead."""

from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, MutationCtx
from evertick.base.errors import DatabaseUnavailable
from evertick.engine.jobs import recovery
from evertick.functions import JobState
from evertick.store.store import Isolation
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


@pytest.fixture
def app(open_postgres_app: OpenApp) -> App:
    """An app with a mutation that ends its own session so many times."""
    app = open_postgres_app()
    tries: list[int] = []

    @app.mutation(name="loses")
    def loses(ctx: MutationCtx, times: int, hides: bool = False) -> int:
        tries.append(1)
        if len(tries) <= times:
            try:
                ctx.connection.execute("select pg_terminate_backend(pg_backend_pid())")
            except Exception:
                if not hides:
                    raise
                ctx.db.insert("losses", {})
        return len(tries)

    @app.mutation(name="innocent")
    def innocent(ctx: MutationCtx) -> None:
        ctx.db.insert("things", {})

    return app


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time need pass before such a mutation fails."""
    monkeypatch.setattr(recovery, "LOST_FOR_MS", 0)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("hides", [False, True])
def test_it_fails_alone(app: App, hides: bool) -> None:
    calls: list[Any] = [app.functions.resolve("innocent").with_args()] * 3
    calls[1:1] = [app.functions.resolve("loses").with_args(1_000_000, hides)]
    ids = app.scheduler.run_after_many(0, calls)
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]
    assert [job.state for job in jobs] == [JobState.SUCCESS, JobState.FAILED, JobState.SUCCESS, JobState.SUCCESS]
    assert "its own statements failed 5 times, while those of others worked: the connection was lost" in str(
        jobs[1].error
    )


@pytest.mark.usefixtures("soon")
def test_it_is_run_again_after_a_few_losses(app: App) -> None:
    job_id = app.scheduler.run_after(0, "loses", times=recovery.LOSSES_MAX - 1)
    with Engine(app) as engine:
        assert engine.wait(job_id).state is JobState.SUCCESS


def test_a_failover_takes_its_time(app: App) -> None:
    """More losses, but in a moment: it may be a server that comes and goes."""
    job_id = app.scheduler.run_after(0, "loses", times=recovery.LOSSES_MAX + 2)
    with Engine(app) as engine:
        assert engine.wait(job_id).state is JobState.SUCCESS


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("where", ["_write", "_still_held"])
def test_an_outage_between_is_none_of_its_losses(app: App, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Whatever else fails in between, the losses are counted anew: 3, an outage, 3 more."""
    write: Callable[..., Any] = app.environment.executors.write
    runs: list[int] = []

    async def failing(work: Any, **options: Any) -> Any:
        is_question = options.get("isolation") is Isolation.READ_COMMITTED
        if (where == "_still_held") is is_question and work.__module__ == recovery.__name__:
            runs.append(1)
            if len(runs) == 3:
                raise DatabaseUnavailable("away")
        return await write(work, **options)

    monkeypatch.setattr(app.environment.executors, "write", failing)
    job_id = app.scheduler.run_after(0, "loses", times=recovery.LOSSES_MAX + 1)
    with Engine(app) as engine:
        assert engine.wait(job_id).state is JobState.SUCCESS
    assert len(runs) > 3
