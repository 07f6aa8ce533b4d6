"""Stops: actions that are canceled and stopped at random moments, and what must hold for each.

* Every job ends, and none before its function has ended.
* A job that was canceled while its function ran ends as canceled, whatever the function did then.
* What is scheduled after that is born canceled.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from evertick import ActionCtx, App, MutationCtx, SyncActionCtx
from evertick.base.ids import DEFAULT_TENANT, JobId
from evertick.base.records.jobs import Job, JobState

SLACK_S: Final = 0.005
"""Ends are told in milliseconds."""
PATIENCE_S: Final = 60.0
HOW: Final = ("returns", "raises", "cleans up", "swallows", "schedules", "spins", "waits in C")


@dataclass(slots=True)
class Ran:
    """When a function ran, by the machine's clock, and what it scheduled after it was told to stop."""

    began: float = 0.0
    ended: float = 0.0
    canceled: float = 0.0
    children: list[str] = field(default_factory=list)


def run_stops(url: str, count: int, base: int) -> list[str]:
    """Run `count` actions, cancel or stop half of them; returns the faults."""
    app = App("stopped", database_url=url)
    ran: dict[int, Ran] = {number: Ran() for number in range(count)}
    _register(app, ran)
    ids = {
        number: app.scheduler.run_after(0, f"{'plain' if number % 2 else 'awaited'}", number, _how(number, base))
        for number in range(count)
    }
    chance = random.Random(f"stops {base}")
    with app.running():
        for number in chance.sample(range(count), count // 2):
            time.sleep(chance.random() * 0.004)
            stop = app.scheduler.stop if chance.random() < 0.5 else app.scheduler.cancel
            stop(ids[number])
            ran[number].canceled = time.time()
        faults = _wait(app, ids)
    for number, job_id in ids.items():
        job, fact = _job(app, job_id), ran[number]
        faults += [f"action {number} ({_how(number, base)}): {fault}" for fault in _faults(app, job, fact)]
    app.close()
    return faults


def _how(number: int, base: int) -> str:
    return random.Random(f"{base}-{number}").choice(HOW)


def _register(app: App, ran: dict[int, Ran]) -> None:
    @app.mutation(name="child of an action")
    def child(ctx: MutationCtx) -> None:
        """Nothing."""

    @app.action(name="awaited", timeout=5)
    async def awaited(ctx: ActionCtx, number: int, how: str) -> str:
        ran[number].began = time.time()
        try:
            await asyncio.sleep(0.02 if how == "returns" else 0)
            if how == "raises":
                raise ValueError
            for _ in range(10 if how in ("spins", "waits in C") else 1):
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            if how == "cleans up":
                await asyncio.sleep(0.005)
            if how != "swallows":
                raise
        finally:
            try:
                if how == "schedules":
                    told = ctx.cancel_requested
                    born = await ctx.scheduler.run_after(0, child)
                    ran[number].children += [born] if told else []
            finally:  # a stop interrupts what cleans up, too
                ran[number].ended = time.time()
        return how

    @app.action(name="plain", timeout=5)
    def plain(ctx: SyncActionCtx, number: int, how: str) -> str:
        ran[number].began = time.time()
        try:
            if how == "raises":
                raise ValueError
            for _ in range(20):
                if ctx.cancel_requested and how != "swallows":
                    break
                time.sleep(0.02 if how == "waits in C" else 0.001)
            if how == "schedules":
                told = ctx.cancel_requested
                born = ctx.scheduler.run_after(0, child)
                ran[number].children += [born] if told else []
        finally:
            ran[number].ended = time.time()
        return how


def _wait(app: App, ids: dict[int, JobId]) -> list[str]:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        states = Counter(_job(app, job_id).state for job_id in ids.values())
        if not states[JobState.PENDING] + states[JobState.IN_PROGRESS]:
            return []
        time.sleep(0.05)
    return [f"actions never ended: {dict(states)}"]


def _faults(app: App, job: Job, fact: Ran) -> list[str]:
    found: list[Any] = []
    if fact.began and not fact.ended:
        found.append("its function has not ended")
    if fact.ended and job.completed_at is not None and job.completed_at / 1000 < fact.ended - SLACK_S:
        found.append(f"it ended {fact.ended - job.completed_at / 1000:.3f} s before its function")
    if fact.canceled and fact.canceled < fact.ended and job.state is not JobState.CANCELED:
        found.append(f"it was canceled while it ran, and ended {job.state.value}")
    found += [f"its child is {state}" for child in fact.children if (state := _job(app, child).state) != "canceled"]
    return found


def _job(app: App, job_id: str) -> Job:
    job = app.environment.store.read(lambda transaction: transaction.get_job(JobId(job_id), tenant=DEFAULT_TENANT))
    assert job is not None
    return job
