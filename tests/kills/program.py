"""The program under fire: an app whose every effect leaves a trace, as a worker and as a client.

A mutation writes one document with its tag and schedules its children in the same transaction. An action appends a
line to a log outside the database, before anything else: what happened there no rollback takes back. A client writes
down what was confirmed to it, after it was confirmed. `tests.kills.ledger` compares all that in the end.
"""

import asyncio
import contextlib
import logging
import os
import random
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from evertick.app.app import App
from evertick.app.execution.contexts import ActionCtx, MutationCtx
from evertick.app.functions.options import JobResult, Retry
from evertick.base.errors import Conflict, OutcomeUnknown, Unavailable
from evertick.engine.runtime.settings import Settings

LEASE_MS: Final = 1_000
SETTINGS: Final = Settings(
    lease=timedelta(milliseconds=LEASE_MS),
    poll=timedelta(milliseconds=250),
    batch=64,
    action_slots=16,
    drain=timedelta(seconds=2),
)
ATTEMPTS_MAX: Final = 3
OUTSIDE: Final = "outside"
"""The pool of the calls to the outside."""
OUTSIDE_MAX: Final = 12
"""How many of them may run at a time, on all workers together."""
CUSTOMERS: Final = 8
CUSTOMER_MAX: Final = 3
"""How many calls for one customer may run at a time."""

app = App("kills", settings=SETTINGS)


class Traces:
    """Where the traces outside of the database are."""

    folder: Path


def write_line(name: str, line: str) -> None:
    """Append a line to a file, all of it or nothing, whoever else writes there."""
    handle = os.open(Traces.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def customer_of(tag: str) -> str:
    """For whom the calls of a root are."""
    return f"customer {sum(map(ord, tag)) % CUSTOMERS}"


@app.mutation(name="root")
def root(ctx: MutationCtx, tag: str) -> str:
    """One effect; two mutations and two actions follow, and a notice of the end of each but the first."""
    ctx.db.insert("effects", {"tag": tag})
    told, retry = ctx.scheduler.using(on_complete=tell, context=tag), Retry(ATTEMPTS_MAX, first=0.05)
    ctx.scheduler.run_after(0, leaf, f"{tag}.m")
    told.using(retry=retry).run_after(0.1, leaf_that_raises_once, f"{tag}.r")
    told.using(limit_key=customer_of(tag)).run_after(0, call_out, f"{tag}.a")
    told.using(retry=retry, on_complete_for="failed", limit_key=customer_of(tag)).run_after(0.05, call_out, f"{tag}.b")
    if len(tag) % 3 == 0:
        time.sleep(0.002)
    return tag


@app.mutation(name="leaf")
def leaf(ctx: MutationCtx, tag: str) -> None:
    """One effect."""
    ctx.db.insert("effects", {"tag": tag})


@app.mutation(name="leaf_that_raises_once")
def leaf_that_raises_once(ctx: MutationCtx, tag: str) -> None:
    """One effect, at the second attempt."""
    ctx.db.insert("effects", {"tag": tag})
    if ctx.attempt == 1:
        raise ValueError("as planned")


@app.mutation(name="tell")
def tell(ctx: MutationCtx, job_id: str, context: str, result: JobResult) -> None:
    """What is called when a job has ended."""
    ctx.db.insert("told", {"job_id": job_id, "root": context, "kind": result.kind})


@app.action(name="call_out", pool=OUTSIDE)
async def call_out(ctx: ActionCtx, tag: str) -> None:
    """A call to the outside, and a mutation that notes it."""
    write_line("calls", f"{tag} {ctx.job_id} {ctx.attempt}")
    await asyncio.sleep(0.02)
    with contextlib.suppress(OutcomeUnknown):
        await ctx.run_mutation(leaf, f"{tag}/{ctx.attempt}")


def run_worker(url: str, folder: Path) -> None:
    """A worker process, until it is killed or the database does not respond at its start."""
    _prepare(url, folder)
    with contextlib.suppress(Unavailable):
        asyncio.run(app.worker().run())


def run_client(url: str, folder: Path, name: str) -> None:
    """A client process: schedules and calls, until it is killed."""
    _prepare(url, folder)
    number = 0
    while True:
        number += 1
        tag = f"{name}-{number}"
        try:
            if number % 4 == 0:
                _call_until_answered(tag)
            else:
                job_id = app.scheduler.run_after(random.choice((0, 0, 0.2)), root, tag)
                write_line("acknowledged", f"{tag} {job_id}")
        except (Unavailable, Conflict):
            time.sleep(0.1)  # unknown, or not done: it was not acknowledged
        time.sleep(0.04)  # fewer than the pool can work off, or its backlog would still be there in the end


def _call_until_answered(tag: str) -> None:
    while True:
        try:
            app.call_once(tag, root, tag)
        except (Unavailable, Conflict):
            time.sleep(0.05)
        else:
            write_line("called", tag)
            return


def _prepare(url: str, folder: Path) -> None:
    Traces.folder = folder
    logging.disable(logging.CRITICAL)
    app._database_url = url
    random.seed()
