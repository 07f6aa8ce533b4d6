"""The app that the tests of the schedules' API share, and small words for its moments."""

import asyncio
from datetime import UTC, datetime, timedelta

from evertick import ActionCtx, App, MutationCtx, QueryCtx, every

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

app = App("api")


@app.mutation(name="tick")
def tick(ctx: MutationCtx, n: int = 1) -> int:
    ctx.db.insert("ticks", {"n": n})
    return n


@app.mutation(name="fail")
def fail(ctx: MutationCtx) -> None:
    raise ValueError("boom")


@app.action(name="nap")
async def nap(ctx: ActionCtx, seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.query(name="look")
def look(ctx: QueryCtx) -> list[str]:
    return [str(one.id) for one in ctx.schedules.list().schedules]


@app.mutation(name="plan_and_raise")
def plan_and_raise(ctx: MutationCtx, and_raise: bool) -> None:
    ctx.schedules.create("from a mutation", when=every(minutes=1), do=tick)
    if and_raise:
        raise ValueError("boom")


def minutes(number: float) -> datetime:
    """So many minutes after the start of the world."""
    return START + number * MINUTE
