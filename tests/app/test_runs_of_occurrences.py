"""Runs of schedules are found by their schedule and by their nominal time: jobs and runs of workflows alike."""

from datetime import UTC, datetime, timedelta

import pytest

from evertick import App, MutationCtx, Step, every
from evertick.base.errors import InvalidDelay
from tests.app.conftest import OpenApp

HOUR = timedelta(hours=1)
FIRST = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app whose two schedules have run a function and a workflow for three hours each, and more was scheduled."""
    app = open_app("shop")

    @app.mutation(name="report")
    def report(ctx: MutationCtx) -> None: ...

    @app.workflow(name="close")
    async def close(step: Step) -> None: ...

    for name, do in (("reports", report), ("closings", close)):
        app.schedules.create(name, when=every(hours=1), do=do, overlap="allow_all")
        app.schedules.backfill(name, FIRST, FIRST + 2 * HOUR)
    app.scheduler.run_at(FIRST + HOUR, report)
    app.workflows.start(close)
    return app


def test_jobs_and_runs_are_found_by_their_schedule_and_their_nominal_time(app: App) -> None:
    """The end is not among them, and other schedules' runs only if no schedule is named."""
    of_one = {"occurrence_from": FIRST + HOUR, "occurrence_until": FIRST + 2 * HOUR}
    jobs = app.jobs.list(schedule="reports", **of_one).jobs
    assert [(job.schedule, job.occurrence) for job in jobs] == [("reports", FIRST + HOUR)]
    assert {job.schedule for job in app.jobs.list(**of_one).jobs} == {"reports", "closings"}
    assert len(app.jobs.list(occurrence_from=FIRST).jobs) == 6
    assert len(app.jobs.list(schedule="reports", occurrence_until=FIRST + HOUR).jobs) == 1
    assert app.jobs.count(**of_one).number == 2

    runs = app.workflows.list(**of_one).runs
    assert [(run.schedule, run.occurrence) for run in runs] == [("closings", FIRST + HOUR)]
    assert len(app.workflows.list(schedule="closings", occurrence_from=FIRST + HOUR).runs) == 2
    assert {run.occurrence for run in app.workflows.list().runs} == {None, *(FIRST + n * HOUR for n in range(3))}

    with pytest.raises(InvalidDelay, match="occurrence_from"):
        app.jobs.list(occurrence_from=datetime(2026, 6, 1))  # noqa: DTZ001
