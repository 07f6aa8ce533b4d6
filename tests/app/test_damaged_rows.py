"""A row that cannot be understood fails alone, and no error of a loop ends its worker."""

import logging
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Settings, Step, SyncActionCtx
from evertick.api.jobs import JobView
from evertick.engine.jobs.actions import ActionEnds, ActionLogs, ActionLoop, CancellationLoop
from evertick.engine.jobs.mutations import MutationLoop
from evertick.engine.maintenance.activity import ActivityWriter
from evertick.engine.maintenance.blocked import BlockedJobs
from evertick.engine.maintenance.pruner import CountSums, Pruner
from evertick.engine.maintenance.reaper import Reaper
from evertick.engine.runtime import loop as loops
from evertick.engine.runtime.loop import Loop
from evertick.engine.schedules.evaluator import Evaluator
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

WRONG = '{"v": 1, "id": 5, "name": 7, "kind": "later", "parameters": ["a"], "context": 1, "origin": [], "request": {}, \
"nominal_at": "x", "run_id": {}, "last_result": 1, "last_failure": null}'
ROWS = {
    "unknown kind": "kind = 'later'",
    "unknown request to stop": "stop = 7",
    "lost arguments": "args = ''",
    "arguments of another shape": "args = '[1]'",
    "no JSON as a retry policy": "retry = '{'",
    "a retry policy beyond all numbers": f"retry = '[9, 250, 100.0, 1{'0' * 400}, 0.5]'",
    "no JSON as what follows": "on_complete = '{'",
    "what follows, of another shape": f"on_complete = '{WRONG}'",
    "an occurrence of another shape": f"schedule = '{WRONG}', schedule_id = 'gone'",
    "an occurrence of a newer release": "schedule = '{\"v\": 99}', schedule_id = 'gone'",
    "unknown size": "size = -5",
    "far away": "rank = -4611686018427387904",
}


def change(app: App, table: str, what: str, **values: Any) -> None:
    """Change rows in the database, by a statement of the test's own."""
    store = app.environment.store
    place = f"{store.place}." if store.dialect == "postgres" and store.place else store.place
    with_values = what if store.dialect == "sqlite" else what.replace("?", "%s")
    store.write(lambda tx: tx.connection.execute(f"{table.format(place)} {with_values}", tuple(values.values())))


def shop(open_app: OpenApp) -> App:
    app = open_app(settings=Settings(prune_every=timedelta(milliseconds=50), poll=timedelta(milliseconds=200)))

    @app.mutation(name="change", timeout=60)
    def change(ctx: MutationCtx, n: int = 0) -> int:
        if n < 0:
            raise ValueError("negative")
        return n

    @app.action(name="plain")
    def plain(ctx: SyncActionCtx, n: int = 0) -> int:
        ctx.log.info("a line")
        return n

    @app.action(name="awaited")
    async def awaited(ctx: ActionCtx, n: int = 0) -> int:
        return n

    @app.workflow(name="flow", timeout=60)
    async def flow(step: Step, n: int = 0) -> int:
        return await step.run(change, n)

    app.migrate()
    return app


def has_ended(app: App, job_id: str) -> JobView | None:
    job = app.jobs.get(job_id)
    return None if job.state in (JobState.PENDING, JobState.IN_PROGRESS) else job


NAMES = ("change", "plain", "awaited", "flow")


@pytest.mark.long
@pytest.mark.parametrize("held", [False, True], ids=["pending", "held by a dead worker"])
def test_damaged_jobs_end_and_those_beside_them_run(open_app: OpenApp, held: bool) -> None:
    app = shop(open_app)
    damaged = []
    for damage in ROWS.values():
        for name in NAMES:
            n = -1 if "retry" in damage and name == "change" else 1
            damaged.append(app.scheduler.run_after(0, name, n))
            change(app, "update {}jobs set", f"{damage} where id = ?", id=damaged[-1])
    if held:
        change(app, "update {}jobs set", "state = 'in_progress', worker_id = 'dead', attempt = 1, started_at = 1")
    healthy = [app.scheduler.run_after(0, name, 2) for name in NAMES]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in healthy]
        ended = [engine.until(partial(has_ended, app, job_id)) for job_id in damaged]

    assert [job.result for job in jobs] == [2] * 4
    if not held:
        by_damage = dict(zip(ROWS, zip(*[iter(ended)] * len(NAMES), strict=True), strict=True))
        for damage in ("lost arguments", "arguments of another shape"):
            assert [job.state for job in by_damage[damage]] == [JobState.FAILED] * 4
        assert "its retry policy cannot be read" in str(by_damage["a retry policy beyond all numbers"][0].error)
        assert [job.state for job in by_damage["what follows, of another shape"]] == [JobState.SUCCESS] * 4


def test_damaged_limits_hold_back_what_they_are_of_and_nothing_else(open_app: OpenApp) -> None:
    app = shop(open_app)
    app.tenants.set("other", running=5)
    app.pools.set("slow", running=5)

    @app.mutation(name="in slow", pool="slow")
    def in_slow(ctx: MutationCtx) -> None:
        """Waits for its pool."""

    change(app, "update {}tenant_limits set", "starts_per_minute = -3, running = -1")
    change(app, "update {}pool_limits set", "starts_per_minute = -3, running = -1")
    waiting = app.scheduler.run_after(0, "in slow")
    with Engine(app) as engine:
        assert [engine.wait(app.scheduler.run_after(0, name, 2)).result for name in NAMES] == [2] * 4
        assert app.jobs.get(waiting).state == JobState.PENDING
    assert app.pools.get("slow").limits.paused


def test_no_error_of_a_loop_ends_its_worker(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop(open_app)
    monkeypatch.setattr(loops, "BACKOFF_MAX_S", 0.01)
    failed: set[str] = set()
    kinds: tuple[type[Loop], ...] = (
        ActionEnds, ActionLoop, ActionLogs, CancellationLoop, MutationLoop, ActivityWriter, BlockedJobs, Pruner,
        Evaluator, Reaper, CountSums,
    )  # fmt: skip

    def failing(kind: type[Loop]) -> Any:
        real = kind.round

        async def round(self: Loop) -> Any:
            if self.name not in failed:
                failed.add(self.name)
                raise RuntimeError("a bug")
            return await real(self)

        return round

    for kind in kinds:
        monkeypatch.setattr(kind, "round", failing(kind))
    with caplog.at_level(logging.ERROR, "evertick.engine"), Engine(app) as engine:
        assert [engine.wait(app.scheduler.run_after(0, name, 2)).result for name in NAMES] == [2] * 4
    counted = app.counters.snapshot()["loop_failures"]
    assert counted == len(failed) >= 9
    assert f"{Pruner.name} failed unexpectedly, and tries again" in caplog.messages
