"""A mutation that must end failed, and whose end cannot be written for a while."""

import logging
from typing import Any

import pytest

from evertick import MutationCtx
from evertick.base.clock import ManualClock
from evertick.base.instants import Instant
from evertick.engine.jobs import recovery
from evertick.engine.jobs.batch import OpenBatch, run_batch
from evertick.engine.runtime.loop import FAILURES_MAX, LOG_EVERY_MS, RepeatedLog
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

TIMES = 1_500


@pytest.mark.long
def test_it_is_tried_again_ever_more_slowly_until_it_is_written_and_the_log_is_not_flooded(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Real once, after a function had set `json.dumps` to None: a traceback for each try, thousands of them."""
    app = open_app()
    ends: list[int] = []
    pauses: list[int] = []

    @app.mutation(name="broken")
    def broken(ctx: MutationCtx) -> None:
        """What the engine fails at."""

    def failing_run(transaction: Any, batch: Any, deps: Any, **options: Any) -> Any:
        if [claim.name for claim in batch.claims] != ["broken"]:
            return run_batch(transaction, batch, deps, **options)
        raise RuntimeError("a bug")

    class FailingEnd(OpenBatch):
        def finish(self) -> Any:
            ends.append(1)
            if len(ends) <= TIMES:
                raise RuntimeError(f"another bug, time {len(ends)}")
            return super().finish()

    async def pause(self: recovery.BatchRunner, failures: int) -> None:
        pauses.append(failures)

    monkeypatch.setattr(recovery, "run_batch", failing_run)
    monkeypatch.setattr(recovery.BatchRunner, "_back_off", pause)
    monkeypatch.setattr(recovery, "OpenBatch", FailingEnd)
    job_id = app.scheduler.run_after(0, "broken")
    with Engine(app) as engine:
        job = engine.wait(job_id)
    assert (job.state, len(ends)) == (JobState.FAILED, TIMES + 1)
    assert pauses == [*range(1, TIMES + 1)]
    said = [each for each in caplog.records if "failed unexpectedly" in each.message]
    assert 2 <= len(said) < 20


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(Instant(1_000_000))


@pytest.fixture
def log(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> RepeatedLog:
    return RepeatedLog(logging.getLogger("evertick.engine"), clock)


def raised(text: str) -> Exception:
    """An error from one line of code."""
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        return error


def test_the_same_failure_is_said_now_and_then_with_how_often_it_came(
    log: RepeatedLog, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        log.error(raised(f"job {number}"), "%d mutations failed", number)
    log.error(ValueError("another one"), "not this")
    clock.set(Instant(clock.now() + LOG_EVERY_MS))
    log.error(raised("job 5"), "%d mutations failed", 5)
    clock.set(Instant(clock.now() + LOG_EVERY_MS))
    log.error(raised("job 6"), "%d mutations failed", 6)

    assert [each.message for each in caplog.records] == [
        "0 mutations failed",
        "not this",
        "5 mutations failed; it came 4 times more since this was said last",
        "6 mutations failed",
    ]
    assert all(each.exc_info for each in caplog.records)


def test_a_clock_that_is_set_back_silences_no_failure(
    log: RepeatedLog, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    log.error(raised("first"), "failed")
    clock.set(Instant(0))
    log.error(raised("second"), "failed")

    assert len(caplog.records) == 2


def test_failures_that_always_differ_are_forgotten(log: RepeatedLog) -> None:
    for number in range(2 * FAILURES_MAX):
        log.error(type(f"Error{number}", (Exception,), {})(), "failed")

    assert len(log._logged) == FAILURES_MAX
