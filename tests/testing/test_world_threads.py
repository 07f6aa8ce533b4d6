"""What has a thread of its own in a worker sees no event loop in a world either."""

import asyncio
from typing import Any

from evertick import ActionCtx, App, MutationCtx, QueryCtx, SyncActionCtx
from evertick.testing import World

shop = App("shop")


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@shop.query
def asked(ctx: QueryCtx) -> int:
    return asyncio.run(doubled(1))


@shop.mutation
def changed(ctx: MutationCtx) -> int:
    return asyncio.run(doubled(2))


@shop.action
def acted(ctx: SyncActionCtx) -> int:
    return asyncio.run(doubled(3))


@shop.action
async def awaited(ctx: ActionCtx) -> list[int]:
    in_thread = await asyncio.to_thread(lambda: asyncio.run(doubled(4)))
    task = asyncio.current_task()
    await asyncio.sleep(1)
    assert asyncio.current_task() is task
    return [await ctx.run_query(asked), in_thread]


@shop.action
def asks_for_an_async_action(ctx: SyncActionCtx) -> Any:
    return ctx.run_action(awaited)


def test_plain_functions_may_run_an_event_loop_of_their_own() -> None:
    with World(shop) as world:
        for function in (changed, acted, awaited):
            shop.scheduler.run_after(0, function)

        world.advance(1)

        assert {job.function.split(".")[-1]: job.result for job in world.jobs()} == {
            "changed": 4,
            "acted": 6,
            "awaited": [2, 8],
        }


def test_so_they_may_in_a_world_inside_a_running_loop() -> None:
    async def test() -> int:
        with World(shop) as world:
            shop.scheduler.run_after(0, acted)
            world.drain()
            return await shop.call_async(changed)

    assert asyncio.run(test()) == 4


def test_a_plain_action_cannot_call_an_async_one_and_is_told_so() -> None:
    with World(shop) as world:
        shop.scheduler.run_after(0, asks_for_an_async_action)
        world.drain()

        [job] = world.jobs()
        assert job.error is not None
        assert job.error.startswith("Misuse: in a world a `def` function cannot call an `async def` action")

        assert shop.call(asks_for_an_async_action) == [2, 8]  # outside of the loop time can pass for it
