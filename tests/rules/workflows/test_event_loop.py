"""The loop of a run: what of asyncio works, what is refused, and how code leaves memory."""

import asyncio
import contextvars
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from evertick.base.errors import WorkflowStuck
from evertick.base.outcomes import Raised
from evertick.rules.workflows import event_loop
from evertick.rules.workflows.event_loop import Evicted
from evertick.rules.workflows.step import Step
from tests.rules.workflows.driving import ACTION, MUTATION, STARTED_AT, Driver, run_of

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


async def _thread() -> None:
    await asyncio.to_thread(print)


async def _connection() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def _process() -> None:
    await asyncio.create_subprocess_exec("true")


async def _signal() -> None:
    asyncio.get_running_loop().add_signal_handler(1, print)


async def _unordered() -> None:
    async def part() -> None: ...

    for each in asyncio.as_completed([part()]):
        await each


@pytest.mark.parametrize("misuse", [_thread, _connection, _process, _signal])
def test_what_reaches_outside_the_run_is_refused_with_the_cure(misuse: Callable[[], Awaitable[None]]) -> None:
    async def code(step: Step) -> None:
        await misuse()

    end = Driver.started(code).run.end
    assert isinstance(end, Raised)
    assert end.type == "NotDeterministic"
    assert "step.run(action)" in end.message


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_as_completed_takes_tasks_because_it_puts_coroutines_into_a_set() -> None:
    async def code(step: Step) -> None:
        await _unordered()

    end = Driver.started(code).run.end
    gc.collect()
    assert isinstance(end, Raised)
    assert end.type == "NotDeterministic"
    assert "asyncio.create_task(each)" in end.message


def test_context_variables_of_the_worker_are_not_seen() -> None:
    async def code(step: Step) -> str:
        return TENANT.get()

    token = TENANT.set("acme")
    try:
        assert Driver.started(code).result == "none"
    finally:
        TENANT.reset(token)


def test_code_that_never_waits_for_a_step_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "CALLBACKS_MAX", 50)

    async def code(step: Step) -> None:
        while True:
            await asyncio.sleep(0)

    run = run_of(code)
    with pytest.raises(WorkflowStuck, match=r"step\.sleep"):
        run.deliver(run.start_row(STARTED_AT))
    run.evict()


def test_a_run_that_nothing_can_wake_is_stuck() -> None:
    async def code(step: Step) -> None:
        await asyncio.Event().wait()

    run = Driver.started(code).run
    assert run.is_stuck
    assert [place.rpartition(" in ")[2] for place in run.waiting_at()] == ["code"]
    run.evict()

    async def other(step: Step) -> None:
        await step.wait_for("x")

    waiting = Driver.started(other).run
    assert not waiting.is_stuck
    waiting.evict()


def test_the_loop_of_the_caller_is_left_and_entered_again() -> None:
    async def code(step: Step) -> str:
        await asyncio.sleep(1)
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async def caller() -> list[str]:
        driver = Driver.started(code)
        driver.end("asyncio")
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return [driver.result, task.get_name()]

    async def main() -> list[str]:
        return await asyncio.create_task(caller(), name="caller")

    assert asyncio.run(main()) == ["workflow", "caller"]


def test_system_exit_ends_the_run_and_not_the_worker() -> None:
    async def code(step: Step) -> None:
        raise SystemExit(3)

    assert Driver.started(code).run.end == Raised("SystemExit", "3")


def test_what_nothing_has_awaited_is_reported() -> None:
    async def code(step: Step) -> None:
        async def part() -> None:
            raise ValueError("forgotten")

        task = asyncio.create_task(part())
        await step.run(MUTATION)
        del task

    driver = Driver.started(code)
    driver.end("mutation")
    driver.run.evict()
    gc.collect()
    assert any("forgotten" in report for report in driver.run.reports)


def test_an_evicted_run_ends_where_it_waits_and_calls_nothing_more() -> None:
    seen: list[str] = []

    async def code(step: Step) -> None:
        try:
            await asyncio.gather(part(step), step.wait_for("x"))
        finally:
            seen.append("finally")
            try:
                await step.run(MUTATION)
            except Evicted:
                seen.append("evicted")
                raise

    async def part(step: Step) -> None:
        try:
            await step.run(ACTION)
        finally:
            seen.append("part")

    driver = Driver.started(code)
    rows = list(driver.rows)
    driver.run.evict()
    assert sorted(seen) == ["evicted", "finally", "part"]
    assert driver.run.take_rows(at=driver.now) == []
    assert driver.rows == rows
    assert not driver.run.open_calls


def test_an_evicted_run_makes_no_tasks() -> None:
    seen: list[Any] = []

    async def code(step: Step) -> None:
        try:
            await step.wait_for("x")
        finally:
            try:
                asyncio.create_task(asyncio.sleep(1))  # noqa: RUF006
            except Evicted as error:
                seen.append(error)

    Driver.started(code).run.evict()
    assert len(seen) == 1


@pytest.mark.parametrize("kind", ["step", "sleep"])
def test_an_evicted_run_that_catches_everything_is_left_where_it_is(kind: str) -> None:
    tries: list[int] = []

    async def code(step: Step) -> None:
        while True:
            try:
                await (step.wait_for("x") if kind == "step" else asyncio.sleep(5))
            except BaseException:
                tries.append(1)

    driver = Driver.started(code)
    driver.run.evict()
    gc.collect()
    assert 1_000 <= len(tries) <= 1_100
