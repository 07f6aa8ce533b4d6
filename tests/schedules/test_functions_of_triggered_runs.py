"""A run that a request starts is of its function as the code has it: its pool, its retry policy, its present name."""

import pytest

from evertick import ActionCtx, App, Retry, Step, every
from evertick.cli.schedule.local_session import session_on
from evertick.testing import World


def shop(pool: str = "mail") -> App:
    """An app with a pool that has a retry policy."""
    app = App("shop")
    app.pool(pool, running=2, retry=Retry(3, first=1))

    @app.action(name="send", pool=pool)
    async def send(ctx: ActionCtx, to: str) -> None:
        raise ConnectionError("no route")

    return app


@pytest.mark.long
def test_a_triggered_run_is_in_the_pool_of_its_function_and_has_its_retry_policy() -> None:
    app = shop()
    with World(app) as world:
        app.schedules.create("s", when=every(hours=1), do=app.functions.resolve("send").with_args("ann"))
        app.pools.pause("mail")
        app.schedules.trigger("s")
        world.advance(60)
        [held] = app.jobs.list().jobs
        assert (held.state, held.pool) == ("pending", "mail")

        app.pools.resume("mail")
        world.advance(60)
        job = app.jobs.get(held.id)
        assert job is not None and (job.state, job.attempt) == ("failed", 3)


def test_a_schedule_that_is_created_with_a_trigger_knows_its_function_too() -> None:
    app = shop()
    with World(app):
        app.schedules.create("s", when=every(hours=1), do=app.functions.resolve("send").with_args("ann"), trigger=True)
        assert [job.pool for job in app.jobs.list().jobs] == ["mail"]


@pytest.mark.long
def test_without_the_code_the_pool_is_the_one_that_a_worker_says() -> None:
    app = shop()
    with World(app) as world:
        app.schedules.create("s", when=every(hours=1), do=app.functions.resolve("send").with_args("ann"))
        world.advance(1)
        session = session_on(world._store, None, None)
        world._store.write(session.operations.trigger("s"))
        assert [job.pool for job in app.jobs.list().jobs] == ["mail"]


@pytest.mark.parametrize("status", ["pause", "deprecate"])
def test_a_trigger_of_a_renamed_workflow_respects_its_status(status: str) -> None:
    old, new = App("shop"), App("shop")

    @old.workflow(name="old")
    async def before(step: Step) -> None:
        """Nothing to do."""

    @new.workflow(name="new", aliases=["old"])
    async def now(step: Step) -> None:
        """Nothing to do."""

    with World(old) as world:
        old.schedules.create("s", when=every(hours=1), do=before.with_args())
        world.deploy(new)
        getattr(new.workflows.types, status)("new")

        seen = new.schedules.trigger("s")

        assert (seen.fate, seen.reason) == ("skipped", "target_ineligible")
        assert new.workflows.list().runs == ()
