"""The app of a fleet under fire, as `evertick serve` and `evertick worker` load it; every effect leaves a trace.

A mutation writes a document with its tag, and with the process and the time in which it was committed or not. An action
appends a line to a file outside the database, so nothing takes it back.
"""

import asyncio
import os
import random
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from evertick import ActionCtx, App, MutationCtx, Settings

LEASE_MS: Final = 3_000
SETTINGS: Final = Settings(
    lease=timedelta(milliseconds=LEASE_MS), poll=timedelta(seconds=1), drain=timedelta(seconds=2)
)
ACTIONS_S: Final = (0.02, 0.02, 0.02, 2.0, 4.0)
"""How long actions take: some longer than a lease, so that they run while the database is away."""

app = App("fleet", settings=SETTINGS)


def _effect(tag: str) -> dict[str, str | int | float]:
    return {"tag": tag, "pid": os.getpid(), "at": time.time()}


@app.mutation(name="pay")
def pay(ctx: MutationCtx, tag: str) -> str:
    """One effect; a mutation and an action follow."""
    ctx.db.insert("effects", _effect(tag))
    ctx.scheduler.run_after(0, leaf, f"{tag}.m")
    ctx.scheduler.run_after(0, call_out, f"{tag}.a")
    return tag


@app.mutation(name="leaf")
def leaf(ctx: MutationCtx, tag: str) -> None:
    """One effect."""
    ctx.db.insert("effects", _effect(tag))


@app.mutation(name="tick")
def tick(ctx: MutationCtx) -> None:
    """What the schedule of every second starts."""
    assert ctx.schedule is not None
    ctx.db.insert("effects", _effect(f"tick {ctx.schedule.run_id}"))


@app.action(name="call_out")
async def call_out(ctx: ActionCtx, tag: str) -> None:
    """A call to the outside that takes its time."""
    handle = os.open(Path(os.environ["FLEET_CALLS"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{tag} {ctx.attempt}\n".encode())
    finally:
        os.close(handle)
    await asyncio.sleep(random.choice(ACTIONS_S))
