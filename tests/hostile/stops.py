"""Stops: actions that are canceled and stopped at random moments, and what must hold for each.

* Every job ends, and none before its function has ended.
* A job that was canceled while its function ran ends as canceled, whatever the function did then.
* What is scheduled after that is born canceled.
* One that holds the event loop ends timed out, soon, and the others go on: those that only wait return.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from evertick import ActionCtx, App, MutationCtx, SyncActionCtx
from evertick.base.ids import DEFAULT_TENANT, JobId
from evertick.base.outcomes import TIMED_OUT
from evertick.base.records.jobs import Job, JobState

SLACK_S: Final = 0.005
"""Ends are told in milliseconds."""
PATIENCE_S: Final = 60.0
HOLDING: Final = ("holds", "holds in a task", "holds in a group", "holds and swallows", "holds and logs")
"""How an action holds the event loop."""
HOLDERS: Final = 10
"""So many of them hold it, one after the other for a second or two: more, and those beside them would time out, too."""
HOW: Final = ("returns", "raises", "cleans up", "swallows", "schedules", "spins", "waits in C")
HELD_S: Final = 0.05
CALM_S: Final = 30.0
"""More than a busy machine ever takes."""


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
        number: app.scheduler.run_after(0, _function(number, base), number, _how(number, base))
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
        how = _how(number, base)
        faults += [f"action {number} ({how}): {fault}" for fault in (*_faults(app, job, fact), *_held(job, fact, how))]
    app.close()
    return faults


def _how(number: int, base: int) -> str:
    return HOLDING[number % len(HOLDING)] if number < HOLDERS else random.Random(f"{base}-{number}").choice(HOW)


def _function(number: int, base: int) -> str:
    if _how(number, base) in HOLDING:
        return "holding"
    return "plain" if number % 2 else "awaited"


def _register(app: App, ran: dict[int, Ran]) -> None:
    @app.mutation(name="child of an action")
    def child(ctx: MutationCtx) -> None:
        """Nothing."""

    @app.action(name="holding", timeout=HELD_S)
    async def holding(ctx: ActionCtx, number: int, how: str) -> None:
        ran[number].began = time.time()
        try:
            await asyncio.sleep(0)
            await _hold(ctx, how)
        finally:
            ran[number].ended = time.time()

    @app.action(name="awaited", timeout=CALM_S)
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

    @app.action(name="plain", timeout=CALM_S)
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


async def _hold(ctx: ActionCtx, how: str) -> None:
    """Run without an await for as long as one can."""

    async def part() -> None:
        _spin(ctx, how)

    if how == "holds in a task":
        await asyncio.gather(asyncio.sleep(CALM_S), part())
    elif how == "holds in a group":
        async with asyncio.TaskGroup() as group:
            group.create_task(part())
            group.create_task(asyncio.sleep(CALM_S))
    elif how == "holds and swallows":
        try:
            _spin(ctx, how)
        except BaseException:
            _spin(ctx, how)
    else:
        _spin(ctx, how)


def _spin(ctx: ActionCtx, how: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if how == "holds and logs":
            ctx.log.debug("on and on")


def _held(job: Job, fact: Ran, how: str) -> list[str]:
    """What is wrong with how an action ended that holds the loop, or with one beside it."""
    if fact.canceled or job.state is JobState.CANCELED:
        return []
    if how in HOLDING:
        error = None if job.error is None else job.error.value
        is_told = (
            error is not None and error.message.startswith("holding took longer than") and "blocked" in error.message
        )
        if is_told and job.state is JobState.FAILED and error.type == TIMED_OUT and "in _spin" in error.traceback:
            return []
        return [f"it held the loop and ended {job.state.value}: {error}"]
    wanted = JobState.FAILED if how == "raises" else JobState.SUCCESS
    return [] if job.state is wanted else [f"it ended {job.state.value}: {job.error}"]


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
