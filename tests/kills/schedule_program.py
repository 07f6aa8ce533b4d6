"""The program under fire of `tests.kills.schedules`: an evaluator and worker whose mutations leave a document each."""

import asyncio
import contextlib
import logging
import random
from datetime import timedelta
from typing import Final

from evertick.app.app import App
from evertick.app.execution.contexts import ActionCtx, MutationCtx
from evertick.base.errors import Unavailable
from evertick.engine.runtime.settings import Settings
from tests.kills.fire import LEASE_MS

SETTINGS: Final = Settings(
    lease=timedelta(milliseconds=LEASE_MS),
    poll=timedelta(milliseconds=250),
    action_slots=200,
    drain=timedelta(seconds=2),
)

app = App("kills", settings=SETTINGS)


@app.mutation(name="tick")
def tick(ctx: MutationCtx) -> None:
    """Writes down which occurrence it ran."""
    assert ctx.schedule is not None
    ctx.db.insert("ticks", {"of": ctx.schedule.run_id})


@app.action(name="work")
async def work(ctx: ActionCtx) -> None:
    """Takes its time: sometimes longer than a second."""
    await asyncio.sleep(random.choice((0.01, 0.3, 1.7)))


def run_worker(url: str) -> None:
    """A process, until it is killed."""
    logging.disable(logging.CRITICAL)
    app._database_url = url
    random.seed()
    with contextlib.suppress(Unavailable):
        asyncio.run(app.worker().run())
