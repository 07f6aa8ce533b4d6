"""Dead letters: a failed job that was run again is marked, lists leave it out, and counts say what is left."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evertick import App, MutationCtx, Step
from evertick.app.status import status_of
from evertick.base.ids import DEFAULT_TENANT, JobId
from evertick.errors import JobNotRetryable, Misuse
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

OpenWorld = Callable[..., World]


def shop(app: App) -> App:
    mail = app.pool("mail", running=5)

    @app.mutation(name="shop.mail", pool=mail)
    def send(ctx: MutationCtx, to: str) -> str:
        if to == "nobody":
            raise ValueError("no such address")
        return to

    @app.workflow(name="shop.fulfil")
    async def fulfil(step: Step, item: str) -> None:
        raise KeyError(item)

    return app


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app with mails that fail, on a database."""
    app = shop(open_app())
    app.migrate()
    return app


def run(app: App, *people: str) -> list[JobId]:
    """Mails that have ended."""
    ids = [app.scheduler.run_after(0, "shop.mail", to=each) for each in people]
    ended(app, *ids)
    return ids


def ended(app: App, *ids: JobId) -> None:
    """Wait for jobs."""
    with Engine(app) as engine:
        for each in ids:
            engine.wait(each)


def left(app: App, **where: Any) -> list[JobId]:
    """The failed jobs that were not run again."""
    return [job.id for job in app.jobs.list(not_retried=True, newest_first=False, **where).jobs]


def test_what_is_dead_still_is_told_from_what_was_run_again(app: App) -> None:
    one, two, fine = run(app, "nobody", "nobody", "ada")

    again = app.jobs.retry(one, args={"to": "ben"})
    ended(app, again)

    assert [app.jobs.get(each).retried_as for each in (one, two, fine, again)] == [again, None, None, None]
    assert {job.id: job.retried_as for job in app.jobs.list(state="failed").jobs} == {one: again, two: None}
    assert left(app) == left(app, pool="mail") == left(app, state="failed", function="shop.mail") == [two]
    assert left(app, pool="press") == left(app, function="shop.order") == []
    assert (app.jobs.counts()["failed"], app.jobs.counts()["not_retried"]) == (2, 1)
    assert app.jobs.counts_by_function()["shop.mail"]["not_retried"] == 1
    assert str(app.jobs.count(not_retried=True)) == str(app.jobs.count(not_retried=True, pool="mail")) == "1"
    assert str(app.jobs.count(not_retried=True, function="shop.order")) == "0"


def test_a_retry_that_fails_is_a_dead_letter_in_the_place_of_the_first(app: App) -> None:
    [one] = run(app, "nobody")

    again = app.jobs.retry(one)
    ended(app, again)

    assert left(app) == [again]
    with pytest.raises(JobNotRetryable, match=f"was retried already, as {again}"):
        app.jobs.retry(one)
    assert app.jobs.retry_all(not_retried=True) == 1
    assert left(app) == []


def test_a_canceled_job_that_runs_again_is_marked_and_is_no_failure(app: App) -> None:
    waits = app.scheduler.run_after(timedelta(days=1), "shop.mail", to="nobody")
    replaced = app.scheduler.run_after(timedelta(days=1), "shop.mail", to="nobody")
    app.jobs.cancel(waits)

    again, other = app.jobs.retry(waits), app.jobs.retry(replaced, args={"to": "ada"})

    assert [app.jobs.get(each).retried_as for each in (waits, replaced)] == [again, other]
    assert app.jobs.retry_all(state="canceled") == 0
    assert (app.jobs.counts()["canceled"], app.jobs.counts()["not_retried"]) == (2, 0)


@pytest.mark.parametrize("where", [{"state": "canceled"}, {"state": ["failed", "success"]}, {"blocked": True}])
def test_only_failed_jobs_can_be_asked_for_so(app: App, where: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match="not_retried= chooses failed jobs that were not run again"):
        app.jobs.list(not_retried=True, **where)
    with pytest.raises(Misuse, match="leave out not_retried="):
        app.jobs.upcoming(not_retried=True)


def test_reports_count_what_is_still_dead(world: OpenWorld) -> None:
    app = shop(App("shop"))
    w = world(app)
    failed = [app.scheduler.run_after(5, "shop.mail", to=to) for to in ("nobody", "nobody", "nobody", "ada")][:3]
    w.advance(10)

    def status() -> tuple[list[int], int]:
        found = app.environment.store.read(lambda tx: status_of(tx, DEFAULT_TENANT, app.environment.job_builder.now()))
        return [each.count for each in found.failures], found.retried

    def overview() -> tuple[int, int]:
        found = app.insight.overview()
        return found.failed_hour.number, found.not_retried_hour.number

    assert (status(), overview()) == (([3], 0), (3, 3))
    app.jobs.retry(failed[0], args={"to": "ada"})
    w.advance(1)
    assert (status(), overview()) == (([2], 1), (3, 2))
    assert app.jobs.retry_all(pool="mail") == 2
    [pool] = app.insight.pools()
    assert (pool.jobs, pool.failed, pool.not_retried) == (5, 3, 0)
    assert (status(), overview()) == (([], 3), (3, 0))
    function = next(each for each in app.insight.functions().functions if each.name == "shop.mail")
    assert (function.failed, function.not_retried) == (3, 0)
    [label] = [each.label for each in app.insight.search("shop.mail") if each.kind == "function"]
    assert "failed" not in label


def test_a_run_of_a_workflow_says_as_which_it_was_retried(world: OpenWorld) -> None:
    app = shop(App("shop"))
    w = world(app)
    run_id = app.workflows.start("shop.fulfil", item="bread")
    w.advance(1)

    again = app.jobs.retry(run_id)

    assert app.workflows.get(run_id).retried_as == again
    assert [run.retried_as for run in app.workflows.list(state="failed").runs] == [again]


def test_a_run_that_is_restarted_is_no_dead_letter(world: OpenWorld) -> None:
    app = shop(App("shop"))
    w = world(app)
    run_id = app.workflows.start("shop.fulfil", item="bread")
    w.advance(1)

    first = app.workflows.restart(run_id)
    assert (app.workflows.get(run_id).retried_as, app.jobs.counts()["not_retried"]) == (first, 0)
    with pytest.raises(JobNotRetryable, match=f"was retried already, as {first}"):
        app.jobs.retry(run_id)
    w.advance(1)
    assert left(app) == [first]

    second = app.workflows.restart(run_id)
    assert app.workflows.get(run_id).retried_as == second, "the last one"
    assert (app.jobs.counts()["failed"], app.jobs.counts()["not_retried"]) == (2, 1)
    waiting = app.workflows.restart(second)
    assert app.workflows.get(second).state == "canceled"
    assert app.workflows.get(second).retried_as == waiting
