"""Workflows: an order that is reserved, paid within two days or released, shipped, and asked about a month later.

            reserve   wait for "paid"   charge   ship   30 days   ask
paid        x         day 1             x x x    x      ........  x
not paid    x         ......... day 2: release
canceled    x         ..  release
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from evertick import ActionCtx, App, JobResult, MutationCtx, Retry, Step
from evertick.testing import World, days, hours

ORDER = "order-7"


class Shop:
    """An app that fulfils orders, and its world."""

    def __init__(self) -> None:
        self.app = App("shop", database_url="sqlite://")
        self.bank_is_down = 0
        self.carrier_is_down = False
        self.charged: list[str] = []
        self.shipped: list[str] = []
        self.told: list[str] = []
        _register(self)


def _register(shop: Shop) -> None:
    app = shop.app

    @app.mutation(name="reserve")
    def reserve(ctx: MutationCtx, order: str) -> None:
        ctx.db.insert("reservations", {"order": order})

    @app.mutation(name="release")
    def release(ctx: MutationCtx, order: str) -> None:
        for found in ctx.db.query("reservations").collect():
            ctx.db.delete(found["_id"])

    @app.action(name="charge")
    async def charge(ctx: ActionCtx, order: str) -> str:
        if shop.bank_is_down:
            shop.bank_is_down -= 1
            raise ConnectionError("the bank is down")
        shop.charged.append(order)
        return f"receipt of {order}"

    @app.action(name="ship")
    async def ship(ctx: ActionCtx, order: str) -> str:
        if shop.carrier_is_down:
            raise ConnectionError("no carrier")
        shop.shipped.append(order)
        return "parcel 1"

    @app.mutation(name="ask")
    def ask(ctx: MutationCtx, order: str) -> None:
        ctx.db.insert("asked", {"order": order, "day": ctx.now.day})

    @app.workflow(name="fulfil")
    async def fulfil(step: Step, order: str) -> str:
        await step.run(reserve, order)
        try:
            await step.wait_for("paid", timeout=timedelta(days=2))
        except (TimeoutError, asyncio.CancelledError):
            await step.run(release, order)
            raise
        receipt = await step.using(retry=Retry(5, first=60)).run(charge, order)
        parcel = await step.run(ship, order)
        await step.sleep(timedelta(days=30))
        await step.run(ask, order)
        return f"{receipt}, {parcel}"

    @app.mutation(name="tell")
    def tell(ctx: MutationCtx, run_id: str, order: str, result: JobResult) -> None:
        shop.told.append(f"{order} {result.kind}")


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def world(shop: Shop) -> Iterator[World]:
    with World(shop.app, at="2026-03-01T09:00:00Z") as world:
        start = shop.app.workflows.using(key=ORDER, on_complete=shop.app.functions.resolve("tell"), context=ORDER)
        start.start(shop.app.functions.resolve("fulfil"), ORDER)  # type: ignore[arg-type]
        yield world


def test_an_order_that_is_paid_is_charged_once_although_the_bank_is_down_twice(shop: Shop, world: World) -> None:
    world.advance(days(1))
    shop.bank_is_down = 2
    shop.app.workflows.signal(ORDER, "paid")
    world.advance(hours(1))
    assert (shop.charged, shop.shipped) == ([ORDER], [ORDER])
    assert world.query("asked") == []

    world.advance(days(30))
    assert shop.app.workflows.result(ORDER) == "receipt of order-7, parcel 1"
    assert [row["day"] for row in world.query("asked")] == [1]  # the first of April
    assert shop.told == ["order-7 success"]


def test_an_order_that_is_not_paid_is_released_after_two_days(shop: Shop, world: World) -> None:
    world.advance(hours(47))
    assert len(world.query("reservations")) == 1
    world.advance(hours(2))

    assert world.query("reservations") == []
    assert (shop.app.workflows.get(ORDER).state, shop.charged) == ("failed", [])
    assert shop.told == ["order-7 failed"]


def test_an_order_that_is_canceled_is_released_at_once(shop: Shop, world: World) -> None:
    world.advance(hours(5))
    shop.app.workflows.cancel(ORDER)
    world.advance(hours(1))

    assert world.query("reservations") == []
    assert shop.app.workflows.get(ORDER).state == "canceled"
    assert shop.told == ["order-7 canceled"]


def test_an_order_whose_shipping_failed_goes_on_from_there_and_is_not_charged_again(shop: Shop, world: World) -> None:
    shop.carrier_is_down = True
    shop.app.workflows.signal(ORDER, "paid")
    world.advance(hours(1))
    failed = shop.app.workflows.get(ORDER)
    assert (failed.state, shop.charged, shop.shipped) == ("failed", [ORDER], [])

    shop.carrier_is_down = False
    shop.app.workflows.restart(failed.id, step="ship")
    world.advance(days(31))
    assert shop.app.workflows.result(ORDER) == "receipt of order-7, parcel 1"
    assert (shop.charged, shop.shipped) == ([ORDER], [ORDER])
    assert shop.told == ["order-7 failed", "order-7 success"]


def test_an_order_that_is_paused_ships_when_it_is_resumed(shop: Shop, world: World) -> None:
    world.advance(hours(1))
    shop.app.workflows.pause(ORDER)
    shop.app.workflows.signal(ORDER, "paid")
    world.advance(days(1))
    assert (shop.app.workflows.get(ORDER).state, shop.charged) == ("paused", [])

    shop.app.workflows.resume(ORDER)
    world.advance(hours(1))
    assert shop.shipped == [ORDER]
