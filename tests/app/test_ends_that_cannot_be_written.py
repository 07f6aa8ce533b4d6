"""A mutation that must end failed, and whose end cannot be written for a while."""

from typing import Any

import pytest

from evertick import MutationCtx
from evertick.engine.jobs.mutations import recovery
from evertick.engine.jobs.mutations.batch import OpenBatch, run_batch
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

TIMES = 8


def test_it_is_tried_again_ever_more_slowly_and_nothing_is_run_again(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app()
    runs: list[int] = []
    ends: list[int] = []
    pauses: list[int] = []

    @app.mutation(name="broken")
    def broken(ctx: MutationCtx) -> None:
        """What the engine fails at."""

    def failing_run(transaction: Any, batch: Any, deps: Any, **options: Any) -> Any:
        if [claim.name for claim in batch.claims] != ["broken"]:
            return run_batch(transaction, batch, deps, **options)
        runs.append(1)
        raise RuntimeError("a bug")

    class FailingEnd(OpenBatch):
        def finish(self) -> Any:
            ends.append(1)
            if len(ends) <= TIMES:
                raise RuntimeError("another bug")
            return super().finish()

    async def pause(self: Any, failures: int) -> None:
        pauses.append(failures)

    monkeypatch.setattr(recovery, "run_batch", failing_run)
    monkeypatch.setattr(recovery, "OpenBatch", FailingEnd)
    monkeypatch.setattr(recovery.BatchRunner, "_back_off", pause)
    job_id = app.scheduler.run_after(0, "broken")
    with Engine(app) as engine:
        job = engine.wait(job_id)
    assert (job.state, len(runs), len(ends)) == (JobState.FAILED, 1, TIMES + 1)
    assert "RuntimeError: a bug" in str(job.error)
    assert pauses == [*range(1, TIMES + 1)]
