"""Runs that no live worker can run: shown as blocked, never as running, and logged once."""

import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evertick import App, MutationCtx, Settings, every

PATIENCE_S = 60


def release(folder: Path, *names: str) -> App:
    """An app with functions of these names, on the database in a folder."""
    app = App("releases", database_url=f"sqlite:///{folder}/x.db", settings=Settings(poll=timedelta(milliseconds=20)))
    for name in names:

        @app.mutation(name=name)
        def work(ctx: MutationCtx) -> None: ...

    return app


def until(done: Callable[[], bool]) -> None:
    """Wait for something that a worker does."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def after(tmp_path: Path) -> Iterator[App]:
    """A release without the function `gone`, which the schedule `s` calls: one run of it is open, one was skipped."""
    before = release(tmp_path, "gone", "stays")
    before.schedules.create("s", when=every(hours=1), do="gone")
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    before.schedules.backfill("s", begin, begin + timedelta(hours=1))
    before.close()
    app = release(tmp_path, "stays")
    with app.running():
        until(lambda: len(app.schedules.occurrences("s").occurrences) == 2)  # a live worker has evaluated it
        yield app
    app.close()


def test_describe_and_explain_say_that_the_run_is_blocked(after: App) -> None:
    [run] = after.schedules.get("s").running
    first, second = after.schedules.occurrences("s").occurrences

    started = after.schedules.explain("s", first.nominal)
    skipped = after.schedules.explain("s", second.nominal)

    assert run.blocked
    assert started.sentence.endswith("; blocked: no live worker runs gone")
    assert skipped.sentence == (
        f"skipped: {first.run} has not ended; that run is blocked, because no live worker runs gone"
    )
    assert (started.fix, skipped.fix) == (f"evertick job get {first.job_id}",) * 2
    assert "running" not in started.sentence + skipped.sentence


def test_an_audit_with_a_blocked_run_is_not_clean(after: App, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    span = now - timedelta(days=1), now + timedelta(days=1)

    report = after.schedules.audit(*span)

    assert (report.clean, report.blocked_count, len(report.blocked)) == (False, 1, 1)
    assert report.counts.started == 1
    [job_id] = [each.job_id for each in report.blocked]
    after.scheduler.cancel(job_id or "")
    again = after.schedules.audit(*span)
    assert (again.clean, again.blocked_count, again.blocked) == (True, 0, ())


def test_a_worker_logs_blocked_jobs_of_a_function_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "evertick.engine")
    before = release(tmp_path, "gone", "gone_too", "stays")
    first, _ = (before.scheduler.run_after(0, "gone") for _ in range(2))
    before.scheduler.run_after(0, "stays")
    before.close()
    said = "job {} ({}) is blocked: no live worker of the app releases runs this function in the pool default"

    app = release(tmp_path, "stays")
    with app.running():
        until(lambda: len(caplog.messages) == 1)
        later = release(tmp_path, "gone_too")
        second = later.scheduler.run_after(0, "gone_too")
        later.close()
        until(lambda: len(caplog.messages) > 1)  # several looks later
    app.close()

    assert caplog.messages == [said.format(first, "gone"), said.format(second, "gone_too")]
    assert [record.__dict__["job_id"] for record in caplog.records] == [first, second]
