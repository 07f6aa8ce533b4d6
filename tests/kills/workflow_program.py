"""The program under fire of `tests.kills.workflows`: workflows of ten steps, each of which leaves a trace."""

import asyncio
import contextlib
import logging
import os
import random
from datetime import timedelta
from pathlib import Path
from typing import Final

from evertick import ActionCtx, App, MutationCtx, Retry, Step
from evertick.base.errors import Unavailable
from evertick.engine.runtime.settings import Settings
from evertick.errors import StepFailed
from tests.kills.fire import LEASE_MS

SETTINGS: Final = Settings(
    lease=timedelta(milliseconds=LEASE_MS),
    poll=timedelta(milliseconds=250),
    batch=64,
    action_slots=16,
    drain=timedelta(seconds=2),
)
EFFECTS: Final = ("m0", "m1", "m2", "m3", "m4", "g0", "g1", "g2")
"""The mutation steps of a run."""
ONCE: Final = "once"
"""The action step without a retry policy."""

app = App("kills", settings=SETTINGS)


class Traces:
    """Where the traces outside of the database are."""

    folder: Path


@app.mutation(name="effect")
def effect(ctx: MutationCtx, tag: str) -> str:
    """One effect."""
    ctx.db.insert("effects", {"tag": tag})
    return tag


@app.action(name="call_out")
async def call_out(ctx: ActionCtx, tag: str) -> str:
    """A call to the outside: a line that no rollback takes back."""
    handle = os.open(Traces.folder / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{tag}\n".encode())
    finally:
        os.close(handle)
    await asyncio.sleep(0.01)
    return tag


@app.workflow(name="ten")
async def ten(step: Step, number: int) -> int:
    """Ten steps: mutations one by one and together, an action without and one with a retry policy; and a sleep."""
    for name in EFFECTS[:5]:
        assert await step.run(effect, f"{number}.{name}") == f"{number}.{name}"
    with contextlib.suppress(StepFailed):  # lost with its worker
        await step.run(call_out, f"{number}.{ONCE}")
    await step.sleep(timedelta(milliseconds=200))
    await asyncio.gather(*(step.run(effect, f"{number}.{name}") for name in EFFECTS[5:]))
    await step.using(retry=Retry(50, first=0.05)).run(call_out, f"{number}.again")
    return number


def run_worker(url: str, folder: Path) -> None:
    """A process, until it is killed."""
    logging.disable(logging.CRITICAL)
    Traces.folder = folder
    app._database_url = url
    random.seed()
    with contextlib.suppress(Unavailable):
        asyncio.run(app.worker().run())
