"""Functions that were renamed, and keep their old names as aliases: runs that have begun go on with them."""

import asyncio
from typing import Any, NamedTuple

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Step
from evertick.errors import ReplayMismatch
from evertick.functions import JobState
from evertick.testing import World, replay
from evertick.workflows import RunState


class Release(NamedTuple):
    """An app with its workflow."""

    app: App
    order: Any


def release(prefix: str, aliases: str | None = None) -> Release:
    """An app whose functions have a prefix; `aliases` is the prefix that they had."""
    app = App("shop")

    def names(name: str) -> dict[str, Any]:
        return {"name": f"{prefix}.{name}", "aliases": [] if aliases is None else [f"{aliases}.{name}"]}

    @app.query(**names("look"))
    def look(ctx: QueryCtx) -> int:
        return 1

    @app.mutation(**names("reserve"))
    def reserve(ctx: MutationCtx) -> int:
        return 2

    @app.action(**names("charge"))
    async def charge(ctx: ActionCtx, seconds: float) -> int:
        if seconds > 1000:
            raise ValueError("no")
        await asyncio.sleep(seconds)
        return 3

    @app.workflow(**names("parcel"))
    async def parcel(step: Step) -> int:
        await step.sleep(10)
        return 4

    @app.workflow(name="order")
    async def order(step: Step) -> list[Any]:
        done: list[Any] = [await step.run(look), await step.run(reserve)]
        slow = asyncio.create_task(step.run(charge, 500))
        done += await asyncio.gather(step.run(charge, 1), step.workflow(parcel))
        slow.cancel()
        try:
            await step.run(charge, 5000)
        except Exception as error:
            done.append(str(error))
        child = asyncio.create_task(step.workflow(parcel))
        done.append(await step.wait_for("sent"))
        return [*done, await step.run(reserve), await child]

    return Release(app, order)


DONE = [1, 2, 3, 4, "old.charge: ValueError: no", "yes", 2, 4]


def begun(world: World, app: App, order: Any) -> str:
    run_id: str = app.workflows.start(order)
    world.advance(15)
    return run_id


def test_a_run_goes_on_with_functions_that_have_new_names() -> None:
    old, new = release("old"), release("new", "old")
    with World(old.app) as world:
        run_id = begun(world, *old)
        world.deploy(new.app)
        world.advance(5)
        new.app.workflows.signal(run_id, "sent", "yes")
        world.advance(60)
        assert new.app.workflows.get(run_id).result == DONE
        history = new.app.workflows.history(run_id)
        names = [step.name.split(".")[0] for step in history.steps() if "." in step.name]
        assert names == ["old"] * 7 + ["new"]
        assert len(world.jobs(function="old.charge", state=JobState.CANCELED)) == 1
        assert replay(new.order, history) == DONE


def test_what_began_under_the_old_name_ends_under_it() -> None:
    """Otherwise the rows of one call would have two names, and no code would fit them."""
    old, new = release("old"), release("new", "old")
    with World(old.app) as world:
        run_id = begun(world, *old)
        world.deploy(new.app)
        world.advance(30)
        called: dict[int, set[str]] = {}
        for event in new.app.workflows.history(run_id).events:
            called.setdefault(event.step, set()).add(event.name)
        assert all(len(names) == 1 for step, names in called.items() if step)


def test_a_release_before_the_new_names_fits_what_they_have_written_once_it_has_them_as_aliases() -> None:
    """A deploy that is taken back."""
    old, new = release("old"), release("new", "old")
    with World(old.app) as world:
        begun_before = begun(world, *old)
        world.deploy(new.app)
        new.app.workflows.signal(begun_before, "sent", "yes")
        begun_after = new.app.workflows.start(new.order)
        world.advance(2)

        world.deploy(release("old").app)
        world.advance(60)
        for name, run_id in (("reserve", begun_before), ("look", begun_after)):
            waiting = world.app.workflows.get(run_id)
            assert waiting.state is RunState.RUNNING and waiting.error is not None
            assert f"give it aliases=['new.{name}']" in waiting.error["message"]

        world.deploy(release("old", "new").app)
        world.app.workflows.signal(begun_after, "sent", "yes")
        world.advance(120)
        assert [world.app.workflows.get(each).result for each in (begun_before, begun_after)] == [DONE, DONE]


def test_a_history_is_replayed_by_code_with_the_aliases_alone() -> None:
    old = release("old")
    with World(old.app) as world:
        history = old.app.workflows.history(begun(world, *old))
    assert replay(release("new", "old").order, history) is None
    assert replay(release("new", "old").order, history.to_json()) is None
    cure = r"if new.look is that function under a new name, give it aliases=\['old.look'\], or this step its old name"
    with pytest.raises(ReplayMismatch, match=cure):
        replay(release("new").order, history)
    with pytest.raises(ReplayMismatch, match="the journal has step 1"):
        replay(release("new", "older").order, history)


def named(app: App, name: str) -> Any:
    """A workflow whose step has the name `charge`, whatever its function is called."""

    @app.mutation(name=name, aliases=["charge"])
    def pay(ctx: MutationCtx) -> int:
        return 1

    @app.workflow(name="named")
    async def workflow(step: Step) -> int:
        return await step.using(name="charge" if name == "pay" else "other").run(pay)

    return workflow


def test_a_step_keeps_its_name_and_one_with_a_name_of_its_own_has_no_other() -> None:
    first, second, third = App("shop"), App("shop"), App("shop")

    @first.mutation(name="charge")
    def charge(ctx: MutationCtx) -> int:
        return 1

    @first.workflow(name="named")
    async def workflow(step: Step) -> int:
        return await step.run(charge)

    with World(first) as world:
        run_id = first.workflows.start(workflow)
        world.drain()
        history = first.workflows.history(run_id)
    assert replay(named(second, "pay"), history) == 1
    with pytest.raises(ReplayMismatch, match=r"the code calls step 1 \(mutation 'other'\) here; if paying is that"):
        replay(named(third, "paying"), history)
