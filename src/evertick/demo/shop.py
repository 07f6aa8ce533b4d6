"""A small shop with all features of Evertick: jobs, crons, schedules of customers, workflows, a pool.

It calls no external service: slow functions sleep, and failures depend on the clock, so every simulation is the same.
"""

import asyncio
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Retry, Step, calendar, cron, every, monthly, rrule

app = App("evertick-demo")
app.table("orders", indexes={"by_customer": ["customer"]})
mail = app.pool("mail", running=4, starts_per_minute=120)
BERLIN = "Europe/Berlin"
GOODS = ("kettle", "teapot", "lamp", "chair", "blanket", "mug")
CUSTOMERS = ("ada", "ben", "carla", "dan", "eve", "finn", "grace", "hugo")


def chance(*what: Any) -> random.Random:
    """Random numbers that are the same in each simulation."""
    return random.Random(repr(what))  # not for secrets


@app.mutation(name="shop.place_orders", internal=True)
def place_orders(ctx: MutationCtx) -> int:
    """Create the orders of visitors: a few an hour, more in the evening."""
    draw = chance("orders", ctx.now)
    hour = (ctx.now.hour + 1) % 24
    count = 0 if hour < 7 else draw.choice((0, 0, 0, 1) if hour < 17 else (0, 0, 1))
    for _ in range(count):
        customer = draw.choice(CUSTOMERS)
        order_id = ctx.db.insert(
            "orders", {"item": draw.choice(GOODS), "customer": customer, "price": draw.randrange(9, 240)}
        )
        order = ctx.workflows.using(key=f"order-{order_id[-8:]}", attributes={"customer": customer})
        order.start(fulfil, order_id, customer)
    return count


@app.mutation(name="shop.reserve")
def reserve(ctx: MutationCtx, order_id: str) -> str:
    """Take the goods of an order from the shelf."""
    ctx.db.patch(order_id, {"reserved": True})
    return f"shelf {chance(order_id).randrange(1, 40)}"


@app.action(name="shop.charge")
async def charge(ctx: ActionCtx, order_id: str) -> str:
    """Charge the customer's card."""
    draw = chance("charge", order_id, ctx.attempt)
    await asyncio.sleep(draw.uniform(0.4, 3.0))
    if draw.random() < 0.12:
        ctx.log.warning("the bank does not respond")
        raise TimeoutError("the bank did not answer within 3 s")
    ctx.log.info("charged")
    return f"receipt {draw.randrange(10_000, 99_999)}"


@app.action(name="shop.send_mail", pool=mail)
async def send_mail(ctx: ActionCtx, customer: str, text: str) -> None:
    """Send a mail to a customer."""
    await asyncio.sleep(chance("mail", customer, text).uniform(0.1, 0.9))
    ctx.log.info("mail to %s: %s", customer, text)


@app.action(name="shop.print_label")
async def print_label(ctx: ActionCtx, order_id: str) -> str:
    """Print the label of a parcel."""
    await asyncio.sleep(chance("label", order_id).uniform(1.0, 6.0))
    return f"DE{chance(order_id).randrange(10**9, 10**10)}"


@app.mutation(name="shop.close_order")
def close_order(ctx: MutationCtx, order_id: str, outcome: str) -> None:
    """Store the outcome of an order."""
    ctx.db.patch(order_id, {"outcome": outcome})


@dataclass(frozen=True)
class Delivery:
    """The delivery of a parcel: the value of an event."""

    by: Literal["bicycle", "van"]
    left_with: str | None = None


@app.workflow(name="shop.fulfil", events={"delivered": Delivery, "returned": None})
async def fulfil(step: Step, order_id: str, customer: str) -> str:
    """An order, from the shelf to the review."""
    shelf = await step.run(reserve, order_id)
    try:
        await step.using(retry=Retry(3, first=20.0)).run(charge, order_id)
    except Exception:
        await step.run(close_order, order_id, outcome="not paid")
        raise
    label, _ = await asyncio.gather(
        step.run(print_label, order_id),
        step.run(send_mail, customer, text=f"your order leaves {shelf} today"),
    )
    try:
        await step.wait_for("delivered", timeout=timedelta(days=3))
    except TimeoutError:
        await step.run(send_mail, customer, text=f"where is {label}? we are searching")
    await step.sleep(timedelta(hours=6))
    await step.run(send_mail, customer, text="how was it? write a review")
    await step.run(close_order, order_id, outcome="done")
    return label


@app.workflow(name="shop.onboard")
async def onboard(step: Step, customer: str) -> int:
    """Welcome a new customer; takes a month."""
    sent = 0
    for text in ("welcome", "five things to know", "a week with us", "a month with us"):
        await step.run(send_mail, customer, text=text)
        sent += 1
        await step.sleep(timedelta(days=1 if sent < 3 else 26))
    return sent


@app.mutation(name="shop.clear_carts", internal=True)
def clear_carts(ctx: MutationCtx) -> int:
    """Delete abandoned carts."""
    return chance("carts", ctx.now).randrange(0, 9)


@app.action(name="shop.sync_stock", internal=True)
async def sync_stock(ctx: ActionCtx) -> dict[str, int]:
    """Get the stock from the warehouse."""
    draw = chance("stock", ctx.now)
    slow = ctx.now.weekday() >= 5 and 17 <= ctx.now.hour < 19
    await asyncio.sleep(draw.uniform(40, 90) if slow else draw.uniform(0.8, 4))
    return {"changed": draw.randrange(0, 30)}


@app.action(name="shop.fetch_prices", internal=True)
async def fetch_prices(ctx: ActionCtx, supplier: str) -> int:
    """Read the price list of a supplier; since Thursday its server fails most of the time."""
    draw = chance("prices", supplier, ctx.now)
    await asyncio.sleep(draw.uniform(0.5, 2))
    if ctx.now.day >= 26 and supplier == "north" and draw.random() < 0.7:
        raise ConnectionError("503 Service Unavailable")
    return draw.randrange(100, 400)


@app.action(name="shop.reconcile")
async def reconcile(ctx: ActionCtx) -> dict[str, int]:
    """Compare the day's payments with the bank's list."""
    draw = chance("reconcile", ctx.now)
    await asyncio.sleep(draw.uniform(80, 150))
    return {"matched": draw.randrange(1_500, 2_100), "open": draw.randrange(0, 9)}


@app.action(name="shop.export")
async def export(ctx: ActionCtx, customer: str, columns: list[str] | None = None) -> str:
    """Write a customer's data to their own storage."""
    await asyncio.sleep(chance("export", customer, ctx.now).uniform(10, 60))
    return f"s3://{customer}/export-{ctx.now:%Y-%m-%d}.csv"


@app.action(name="shop.render_report")
async def render_report(ctx: ActionCtx, kind: str = "daily") -> str:
    """Draw the figures of a day or a week."""
    await asyncio.sleep(chance("report", kind, ctx.now).uniform(20, 70))
    if kind == "weekly":
        raise TimeoutError("the database of figures took longer than 60 s")
    return f"{kind}-{ctx.now:%Y-%m-%d}.pdf"


@app.mutation(name="shop.remind")
def remind(ctx: MutationCtx, customer: str, invoice: str) -> None:
    """Remind a customer of an invoice."""
    ctx.db.insert("reminders", {"customer": customer, "invoice": invoice})


@app.query(name="shop.count_orders")
def count_orders(ctx: QueryCtx) -> int:
    """The number of orders."""
    return len(ctx.db.query("orders").collect())


app.crons.add("orders", every(minutes=30), place_orders)
app.crons.add("clear carts", every(hours=3), clear_carts)
app.crons.add("sync stock", cron("*/30 * * * *"), sync_stock)
app.crons.add("prices north", every(hours=1, offset=timedelta(minutes=5)), fetch_prices, "north")
app.crons.add("prices south", every(hours=4, offset=timedelta(minutes=10)), fetch_prices, "south")
app.crons.using(catch_up_window=timedelta(hours=1)).add("billing.reconcile", cron("0 8 * * *", tz=BERLIN), reconcile)
app.crons.add("report.daily", cron("54 23 * * *", tz=BERLIN), render_report, "daily")
app.crons.add("report.weekly", cron("0 6 * * 1,4", tz=BERLIN), render_report, "weekly")
app.crons.add("night backup", cron("30 2 * * *", tz=BERLIN), clear_carts)
app.crons.add("payment reminder", monthly(day=1, hour=16), remind, "me@example.org", invoice="all")
SECOND_SUNDAYS = rrule("DTSTART;TZID=America/New_York:20260111T060000\nRRULE:FREQ=MONTHLY;BYDAY=2SU")
app.crons.add("stocktaking", SECOND_SUNDAYS, sync_stock)
app.crons.add("weekend sale", calendar(day_of_week="Sat", hour=9, minute=0, tz=BERLIN), remind, "all", invoice="sale")
