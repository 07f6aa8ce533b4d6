"""Records of any logger say which job writes them, in every kind of function."""

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Retry, Step, SyncActionCtx
from evertick.integrations.logs import JobFilter, JsonFormatter
from evertick.testing import World

elsewhere = logging.getLogger("a_library")


class Kept(logging.Handler):
    """Keeps what a handler with a `JobFilter` would write."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(JobFilter())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, message: str) -> list[tuple[Any, ...]]:
        """Job, function, attempt and tenant of the records with a message."""
        return [
            (record.job_id, record.function, record.attempt, record.tenant)  # type: ignore[attr-defined]
            for record in self.records
            if record.getMessage() == message
        ]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    root = logging.getLogger()
    root.addHandler(handler)
    elsewhere.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    elsewhere.setLevel(logging.NOTSET)


app = App("logged")


@app.query(name="reads")
def reads(ctx: QueryCtx) -> None:
    elsewhere.info("reads")


@app.mutation(name="writes")
def writes(ctx: MutationCtx, fails: int = 0) -> None:
    elsewhere.info("writes")
    if ctx.attempt <= fails:
        raise ValueError("not yet")


@app.mutation(name="outer")
def outer(ctx: MutationCtx) -> None:
    ctx.run_mutation(writes)
    elsewhere.info("outer")


@app.action(name="waits")
async def waits(ctx: ActionCtx) -> None:
    await asyncio.sleep(1)
    elsewhere.info("waits")
    await ctx.run_mutation(writes)
    await ctx.run_query(reads)


@app.action(name="blocks")
def blocks(ctx: SyncActionCtx) -> None:
    elsewhere.info("blocks")
    ctx.run_mutation(writes)


@app.action(name="in_task")
async def in_task(ctx: ActionCtx) -> None:
    async def write() -> None:
        elsewhere.info("in a task")

    await asyncio.gather(write(), write())


@app.workflow(name="goes_on")
async def goes_on(step: Step) -> None:
    elsewhere.info("goes on")
    await step.run(writes)


def test_a_mutation_and_what_it_calls(kept: Kept) -> None:
    with World(app) as world:
        job = app.scheduler.run_after(1, outer)
        world.advance(1)

        assert kept.of("outer") == [(job, "outer", 1, "default")]
        assert kept.of("writes") == [(job, "outer", 1, "default")]


def test_two_actions_at_the_same_time(kept: Kept) -> None:
    with World(app) as world:
        first = app.scheduler.run_after(1, waits)
        second = app.tenant("acme").scheduler.run_after(1, waits)
        blocking = app.scheduler.run_after(3, blocks)
        tasks = app.scheduler.run_after(3, in_task)
        world.advance(4)

        assert sorted(kept.of("waits")) == sorted([(first, "waits", 1, "default"), (second, "waits", 1, "acme")])
        assert kept.of("blocks") == [(blocking, "blocks", 1, "default")]
        assert kept.of("in a task") == [(tasks, "in_task", 1, "default")] * 2
        # What an action calls is of its job, in whatever thread it runs.
        assert {each[0] for each in kept.of("writes")} == {first, second, blocking}
        assert {each[0] for each in kept.of("reads")} == {first, second}


def test_the_second_attempt_says_so(kept: Kept) -> None:
    with World(app) as world:
        job = app.scheduler.using(retry=Retry(2)).run_after(0, writes, fails=1)
        world.drain()

        assert kept.of("writes") == [(job, "writes", 1, "default"), (job, "writes", 2, "default")]


def test_a_workflow_and_its_step(kept: Kept) -> None:
    with World(app) as world:
        run = app.workflows.start(goes_on)
        world.drain()

        assert set(kept.of("goes on")) == {(run, "goes_on", 1, "default")}
        assert [each[0] for each in kept.of("writes")] == [run]


def test_outside_of_functions_there_is_no_job_and_a_call_has_none(kept: Kept) -> None:
    with World(app) as world:
        elsewhere.info("before")
        world.call(writes)
        asyncio.run(app.call_async(waits))
        elsewhere.info("after")

        assert kept.of("before") == kept.of("after") == [(None, None, None, None)]
        assert kept.of("writes") == [(None, "writes", None, "default"), (None, "waits", None, "default")]
        assert kept.of("waits") == [(None, "waits", None, "default")]


def test_threads_of_a_real_worker_are_told_apart(kept: Kept, database_url: str) -> None:
    real = App("real", database_url=database_url)
    done = threading.Semaphore(0)

    @real.action(name="blocks")
    def blocks(ctx: SyncActionCtx, number: int) -> None:
        elsewhere.info("number %d", number)
        done.release()

    @real.action(name="awaits")
    async def awaits(ctx: ActionCtx, number: int) -> None:
        await ctx.run_query(look, number)
        done.release()

    @real.query(name="look")
    def look(ctx: QueryCtx, number: int) -> None:
        elsewhere.info("number %d", number)

    with real:
        jobs = [real.scheduler.run_after(0, function, n) for n, function in enumerate([blocks, awaits] * 5)]
        with real.running():
            for _ in jobs:
                assert done.acquire(timeout=120)
        elsewhere.info("over")

    for n, job in enumerate(jobs):
        assert [each[0] for each in kept.of(f"number {n}")] == [job]
    assert kept.of("over") == [(None, None, None, None)]


def test_json_lines_carry_the_job_and_leave_out_what_there_is_not() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("a_library.json")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    own = App("json")

    @own.mutation(name="speak")
    def speak(ctx: MutationCtx) -> None:
        logger.info("spoken", extra={"attempt": "mine"})

    try:
        with World(own) as world:
            job = own.scheduler.run_after(0, speak)
            world.drain()
            logger.warning("outside", extra={"size": None})
    finally:
        logger.removeHandler(handler)

    inside, outside = (json.loads(line) for line in written.getvalue().splitlines())
    assert {name: inside[name] for name in ("message", "job_id", "function", "attempt", "tenant")} == {
        "message": "spoken", "job_id": job, "function": "speak", "attempt": "mine", "tenant": "default",
    }  # fmt: skip
    assert set(outside) == {"time", "level", "logger", "message", "size"}
