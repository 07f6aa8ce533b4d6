"""Runs of schedules are found by their schedule and by their nominal time: jobs and runs of workflows alike."""

from datetime import UTC, datetime, timedelta

import pytest

from evertick import App, MutationCtx, Step, every
from evertick.base.errors import InvalidDelay
from evertick.testing import World

HOUR = timedelta(hours=1)
FIRST = datetime(2026, 6, 1, 1, tzinfo=UTC)

app = App("occurrences")


@app.mutation(name="report")
def report(ctx: MutationCtx) -> None: ...


@app.workflow(name="close")
async def close(step: Step) -> None: ...


def test_jobs_and_runs_are_found_by_their_schedule_and_their_nominal_time() -> None:
    """The end is not among them, and other schedules' runs only if no schedule is named."""
    of_one = {"occurrence_from": FIRST + HOUR, "occurrence_until": FIRST + 2 * HOUR}
    with World(app, at=FIRST - HOUR / 2) as world:
        for name, do in (("reports", report), ("closings", close)):
            app.schedules.create(name, when=every(hours=1), do=do)
        app.scheduler.run_at(FIRST + HOUR, report)
        app.workflows.start(close)
        world.advance(3 * HOUR)

        jobs = app.jobs.list(schedule="reports", **of_one).jobs
        assert [(job.schedule, job.occurrence) for job in jobs] == [("reports", FIRST + HOUR)]
        assert {job.schedule for job in app.jobs.list(**of_one).jobs} == {"reports", "closings"}
        assert len(app.jobs.list(occurrence_from=FIRST).jobs) == 6
        assert len(app.jobs.list(schedule="reports", occurrence_until=FIRST + HOUR).jobs) == 1
        assert app.jobs.count(**of_one).number == 2

        runs = app.workflows.list(**of_one).runs
        assert [(run.schedule, run.occurrence) for run in runs] == [("closings", FIRST + HOUR)]
        assert len(app.workflows.list(schedule="closings", occurrence_from=FIRST + HOUR).runs) == 2
        found = {run.occurrence for run in app.workflows.list().runs}
        assert found == {None, *(FIRST + n * HOUR for n in range(3))}

        with pytest.raises(InvalidDelay, match="no time zone"):
            app.jobs.list(occurrence_from=datetime(2026, 6, 1))
