"""What the code of a workflow can do with its steps."""

import asyncio
import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from evertick.base.errors import (
    InvalidArguments,
    InvalidDelay,
    LimitExceeded,
    Misuse,
    OutcomeUnknown,
    StepFailed,
    StepOutcomeUnknown,
    StepOutsideWorkflow,
    ValueTooLarge,
)
from evertick.base.instants import NEVER
from evertick.base.outcomes import LOST_WORKER, STEP_TIMED_OUT, Canceled, Raised, Returned
from evertick.base.records.jobs import RetryPolicy
from evertick.base.records.workflows import CallKind, RowKind
from evertick.rules.workflows import run as run_module
from evertick.rules.workflows.calls import ContinuedAsNew
from evertick.rules.workflows.step import Step
from tests.rules.workflows.driving import ACTION, CHILD, MUTATION, QUERY, STARTED_AT, Driver, run_of


def test_steps_run_in_order_and_their_results_come_back() -> None:
    async def code(step: Step, user: str) -> list[Any]:
        return [await step.run(QUERY, user), await step.run(MUTATION, user), await step.run(ACTION, user)]

    driver = Driver.started(code, "ada")
    driver.end("query", 1)
    driver.end("mutation", {"id": 2})
    driver.end("action", "three")

    assert driver.result == [1, {"id": 2}, "three"]
    kinds = [(row.kind, row.seq, row.call) for row in driver.rows]
    assert kinds == [
        (RowKind.START, 0, None),
        (RowKind.STEP, 1, CallKind.QUERY),
        (RowKind.STEP, 2, CallKind.MUTATION),
        (RowKind.CALL, 3, CallKind.ACTION),
        (RowKind.END, 3, None),
    ]


async def _forgets(step: Step) -> None:
    step.run(ACTION)  # type: ignore[unused-coroutine]


async def _forgets_the_last_of_many(step: Step) -> None:
    await asyncio.gather(*(step.run(ACTION) for _ in range(3)))
    step.run(ACTION)  # type: ignore[unused-coroutine]


async def _forgets_and_continues(step: Step) -> None:
    step.run(ACTION)  # type: ignore[unused-coroutine]
    step.continue_as_new()


@pytest.mark.parametrize("code", [_forgets, _forgets_the_last_of_many, _forgets_and_continues])
def test_a_run_whose_code_forgets_to_await_a_step_fails(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would succeed without the step."""
    monkeypatch.setattr(run_module, "UNAWAITED_MAX", 2)
    driver = Driver.started(code)
    while driver.waits_for:
        driver.end("action")

    end = driver.run.end
    assert isinstance(end, Raised)
    assert (end.type, end.message) == (
        "Misuse",
        "the result of step.run(...) was not awaited, so it did not run: write `await step.run(...)`",
    )


def test_a_step_in_a_task_and_one_that_the_code_closes_need_no_await() -> None:
    async def code(step: Step) -> str:
        step.run(ACTION).close()
        asyncio.create_task(step.run(ACTION))  # noqa: RUF006
        return "done"

    driver = Driver.started(code)
    assert driver.result == "done"
    driver.run.evict()  # the task has not begun


def test_steps_of_a_gather_wait_at_a_time() -> None:
    async def code(step: Step) -> list[Any]:
        return list(await asyncio.gather(*(step.using(name=f"a{each}").run(ACTION, each) for each in range(3))))

    driver = Driver.started(code)
    assert driver.waits_for == ["a0", "a1", "a2"]
    for name in ("a2", "a0", "a1"):
        driver.end(name, name)
    assert driver.result == ["a0", "a1", "a2"]


def test_a_failed_step_can_be_caught() -> None:
    async def code(step: Step) -> Any:
        try:
            await step.run(MUTATION)
        except StepFailed as error:
            return [error.step, error.type, error.message, error.data]

    driver = Driver.started(code)
    driver.end("mutation", error=Raised("CardDeclined", "no funds", data='{"code": 51}'))
    assert driver.result == ["mutation", "CardDeclined", "no funds", {"code": 51}]


def test_a_failed_step_that_is_not_caught_fails_the_run() -> None:
    async def code(step: Step) -> None:
        await step.run(ACTION)

    driver = Driver.started(code)
    driver.fail("action", "CardDeclined", "no funds")
    assert driver.run.end == Raised("StepFailed", "action: CardDeclined: no funds")


def test_a_step_whose_worker_was_lost_has_an_unknown_outcome() -> None:
    async def code(step: Step) -> str:
        try:
            await step.run(ACTION)
        except OutcomeUnknown as error:
            return type(error).__name__
        return "?"

    driver = Driver.started(code)
    driver.fail("action", LOST_WORKER)
    assert driver.result == StepOutcomeUnknown.__name__


def test_a_sleep_ends_at_its_time() -> None:
    async def code(step: Step) -> str:
        await step.sleep(timedelta(days=400))
        await step.sleep_until(datetime(2026, 1, 1, tzinfo=UTC))
        return step.now().isoformat()

    driver = Driver.started(code)
    assert driver.run.next_due_at == STARTED_AT + 400 * 86_400_000
    driver.end("sleep")
    assert driver.run.next_due_at == 1_767_225_600_000
    driver.end("sleep")
    assert driver.run.next_due_at == NEVER
    assert driver.result == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("delay", [-1, float("inf"), float("nan"), "5m", True])
def test_a_sleep_needs_a_time_that_can_be_meant(delay: Any) -> None:
    async def code(step: Step) -> str:
        with pytest.raises(InvalidDelay):
            await step.sleep(delay)
        return "ok"

    assert Driver.started(code).result == "ok"


def test_an_event_brings_its_value_or_a_timeout() -> None:
    async def code(step: Step) -> list[Any]:
        first = await step.wait_for("approved")
        try:
            await step.wait_for("paid", timeout=5)
        except TimeoutError as error:
            return [first, str(error)]
        return []

    driver = Driver.started(code)
    assert driver.run.next_due_at == NEVER
    driver.end("approved", {"by": "ada"})
    assert driver.run.next_due_at == STARTED_AT + 5_000
    driver.fail("paid", "TimeoutError", "no event 'paid' within 5 s")
    assert driver.result == [{"by": "ada"}, "no event 'paid' within 5 s"]


def test_a_step_that_ends_after_its_timeout_raises_timeout_error() -> None:
    async def code(step: Step) -> list[str]:
        caught = []
        for started in (
            step.using(timeout=5).run(ACTION),
            step.using(timeout=timedelta(hours=1)).workflow(CHILD),
            step.using(timeout=0.5).run(MUTATION),
        ):
            try:
                await started
            except TimeoutError as error:
                caught.append(str(error))
        try:
            await step.using(timeout=5).run(ACTION)
        except StepFailed as error:
            caught.append(error.type)
        return caught

    driver = Driver.started(code)
    assert driver.run.next_due_at == STARTED_AT + 5_000
    driver.fail("action", STEP_TIMED_OUT, "one")
    assert driver.run.next_due_at == STARTED_AT + 5_000 + 3_600_000
    driver.fail("child", STEP_TIMED_OUT, "two")
    assert driver.run.next_due_at == NEVER  # the function's own time is limited
    driver.fail("mutation", STEP_TIMED_OUT, "three")
    driver.fail("action", "TimeoutError", "its own")
    assert driver.result == ["one", "two", "three", "TimeoutError"]
    assert driver.replayed(code).end == driver.run.end
    assert next(row.due_at for row in driver.rows if row.call is CallKind.ACTION) == STARTED_AT + 5_000


@pytest.mark.parametrize("forever", [1e13, timedelta.max])
def test_times_beyond_the_calendar_are_never(forever: float | timedelta) -> None:
    async def code(step: Step) -> None:
        await asyncio.gather(
            step.using(timeout=forever).run(ACTION), step.sleep(forever), step.wait_for("paid", timeout=forever)
        )

    assert {call.due_at for call in Driver.started(code).run.open_calls.values()} == {NEVER}


def test_asyncio_timers_are_calls() -> None:
    async def code(step: Step) -> str:
        await asyncio.sleep(5)
        try:
            async with asyncio.timeout(3):
                await step.run(ACTION)
        except TimeoutError:
            return "late"
        return "in time"

    driver = Driver.started(code)
    driver.end("asyncio")
    driver.end("asyncio")
    assert driver.result == "late"
    assert [row.name for row in driver.rows if row.kind is RowKind.DROP] == ["action"]  # it ends with the run

    driver = Driver.started(code)
    driver.end("asyncio")
    driver.end("action")
    assert driver.result == "in time"


def test_giving_up_what_goes_on_elsewhere_is_recorded() -> None:
    async def code(step: Step) -> None:
        try:
            async with asyncio.timeout(3):
                await step.workflow(CHILD)
        except TimeoutError:
            await step.run(MUTATION)

    driver = Driver.started(code)
    driver.end("asyncio")
    assert (driver.rows[-1].kind, driver.rows[-1].name) == (RowKind.DROP, "child")
    assert driver.waits_for == ["mutation"]


def test_what_is_given_up_before_it_began_does_not_begin() -> None:
    async def code(step: Step) -> None:
        tasks = [asyncio.create_task(step.run(ACTION)), asyncio.create_task(step.run(MUTATION))]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await step.using(name="after").run(MUTATION)

    driver = Driver.started(code)
    assert driver.waits_for == ["after"]
    assert [row.kind for row in driver.rows] == [RowKind.START]


def test_a_cancelled_run_cleans_up_with_steps() -> None:
    async def code(step: Step) -> None:
        try:
            await step.run(ACTION)
        except asyncio.CancelledError:
            await step.using(name="undo").run(MUTATION)
            raise

    driver = Driver.started(code)
    driver.cancel()
    assert driver.waits_for == ["undo"]
    assert driver.run.end is None
    driver.end("undo")
    assert driver.run.end == Canceled()


def test_a_run_that_ends_otherwise_after_a_cancel_is_not_canceled() -> None:
    async def code(step: Step) -> str:
        try:
            await step.run(ACTION)
        except asyncio.CancelledError:
            return "enough"
        return "all"

    driver = Driver.started(code)
    driver.cancel()
    assert driver.result == "enough"


def test_a_run_that_cancels_itself_has_failed() -> None:
    async def code(step: Step) -> None:
        task = asyncio.create_task(step.run(ACTION))
        await asyncio.sleep(0)
        task.cancel()
        await task

    end = Driver.started(code).run.end
    assert isinstance(end, Raised)
    assert end.type == "CancelledError"


def test_continue_as_new_ends_the_run_with_new_arguments() -> None:
    async def code(step: Step, count: int) -> None:
        await step.run(MUTATION)
        step.continue_as_new(count + 1)

    driver = Driver.started(code, 1)
    driver.end("mutation")
    assert driver.run.end == ContinuedAsNew(json.dumps([2, {}]))


def test_continue_as_new_works_in_the_workflow_function_only() -> None:
    async def part(step: Step) -> None:
        step.continue_as_new()

    async def code(step: Step) -> None:
        await asyncio.gather(part(step))

    end = Driver.started(code).run.end
    assert isinstance(end, Raised)
    assert end.type == "StepOutsideWorkflow"


def test_chance_time_and_ids_are_those_of_the_run() -> None:
    async def code(step: Step) -> list[Any]:
        return [step.random(), str(step.uuid()), step.now().isoformat(), step.id]

    first, second = Driver.started(code), Driver.started(code)
    assert first.result == second.result
    assert UUID(first.result[1]).version == 4
    other = Driver.started(code, run_id="run_2")
    assert other.result[:2] != first.result[:2]


def test_progress_can_be_read_from_outside() -> None:
    async def code(step: Step) -> None:
        step.progress({"done": 1})
        await step.run(MUTATION)
        with pytest.raises(InvalidArguments):
            step.progress(object())
        with pytest.raises(ValueTooLarge):
            step.progress("x" * 20_000)
        step.progress({"done": 2})

    driver = Driver.started(code)
    assert driver.run.progress == '{"done": 1}'
    driver.end("mutation")
    assert driver.run.progress == '{"done": 2}'
    assert isinstance(driver.run.end, Returned)


def test_a_step_with_a_retry_policy_a_pool_or_a_limit_key_is_a_job() -> None:
    async def code(step: Step) -> None:
        await asyncio.gather(
            step.using(retry=RetryPolicy(3)).run(ACTION),
            step.using(pool="mail").run(MUTATION),
            step.using(limit_key="ada").run(MUTATION),
        )

    calls = list(Driver.started(code).run.open_calls.values())
    assert [call.kind for call in calls] == [CallKind.JOB] * 3
    assert calls[2].options.limit_key == "ada"
    assert calls[0].options.retry == RetryPolicy(3)
    assert calls[1].options.pool == "mail"


def test_a_child_workflow_has_its_options() -> None:
    async def code(step: Step) -> None:
        await step.using(key="page-2", attributes={"b": 2, "a": "x"}, priority=5).workflow(CHILD)

    [call] = Driver.started(code).run.open_calls.values()
    assert (call.kind, call.options.key, call.options.priority) == (CallKind.WORKFLOW, "page-2", 5)
    assert json.loads(call.options.attributes) == {"a": "x", "b": 2}


def test_options_and_names_that_cannot_be_meant_are_refused() -> None:
    async def code(step: Step) -> str:
        wrong: list[dict[str, Any]] = [
            {"nam": "x"},
            {"limit_key": 7},
            {"limit_key": ""},
            {"name": ""},
            {"name": "a\nb"},
            {"retry": 5},
            {"pool": "no such pool!!"},
            {"pool": ".."},
            {"pool": "x" * 101},
            {"key": ""},
            {"key": 7},
            {"priority": "1"},
            {"priority": 1_001},
            {"attributes": "page"},
            {"attributes": {"page": 1.5}},
        ]
        wrong += [{"timeout": each} for each in (-1, 0, 0.0004, True, "5", float("nan"), float("inf"))]
        for options in wrong:
            with pytest.raises(Misuse):
                step.using(**options)
        for waiting in (step.using(timeout=5).sleep(1), step.using(timeout=5).wait_for("paid")):
            with pytest.raises(Misuse, match=r"is for step\.run"):
                await waiting
        for name in ("", "x" * 201, 5):
            with pytest.raises(Misuse):
                await step.wait_for(name)  # type: ignore[arg-type]
            with pytest.raises(Misuse):
                step.patched(name)  # type: ignore[arg-type]
        with pytest.raises(Misuse, match=r"call step\.workflow"):
            await step.run(CHILD)
        with pytest.raises(Misuse, match=r"call step\.run"):
            await step.workflow(ACTION)
        with pytest.raises(Misuse, match="registered"):
            await step.run(print)  # type: ignore[arg-type]
        return "ok"

    assert Driver.started(code).result == "ok"


def test_an_option_that_would_do_nothing_for_a_step_is_refused() -> None:
    async def code(step: Step) -> str:
        for jobs in (step.using(retry=RetryPolicy(3)), step.using(pool="mail"), step.using(limit_key="ada")):
            with pytest.raises(Misuse, match=r"query is a query, .* never as a job"):
                await jobs.run(QUERY)
        for children in (step.using(key="k"), step.using(attributes={"n": 1}), step.using(priority=0)):
            for refused in (children.run(MUTATION), children.run(ACTION), children.sleep(1), children.wait_for("paid")):
                with pytest.raises(Misuse, match=r"is for child workflows, which step\.workflow runs"):
                    await refused
        with pytest.raises(Misuse, match=r"takes no option on_complete; the options are name, .*, key,"):
            step.using(on_complete=MUTATION)  # type: ignore[call-arg]
        with pytest.raises(Misuse, match=r"a run of child keeps what its steps returned.*give it to its steps"):
            await step.using(retry=RetryPolicy(3)).workflow(CHILD)
        return "ok"

    assert Driver.started(code).result == "ok"


def test_a_step_outside_its_workflow_is_refused() -> None:
    kept: list[Step] = []

    async def code(step: Step) -> str:
        kept.append(step)
        await step.run(MUTATION)
        return "ended"

    driver = Driver.started(code)

    async def elsewhere() -> None:
        with pytest.raises(StepOutsideWorkflow, match="outside the code of its run run_1"):
            await kept[0].run(MUTATION)

    asyncio.run(elsewhere())
    with pytest.raises(StepOutsideWorkflow):
        kept[0].patched("x")
    with pytest.raises(StepOutsideWorkflow):
        kept[0].progress(1)
    with pytest.raises(StepOutsideWorkflow):
        kept[0].continue_as_new()
    driver.end("mutation")
    assert driver.result == "ended"


def test_a_step_of_a_thread_is_refused() -> None:
    async def code(step: Step) -> list[str]:
        told: list[str] = []

        def work() -> None:
            try:
                step.run(MUTATION).send(None)
            except StepOutsideWorkflow as error:
                told.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return told

    assert "outside the code of its run" in Driver.started(code).result[0]


def test_a_journal_that_becomes_too_long_is_an_error_that_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "JOURNAL_ROWS_MAX", 3)

    async def code(step: Step) -> None:
        while True:
            await step.run(MUTATION)

    driver = Driver.started(code)
    driver.end("mutation")
    driver.end("mutation")
    end = driver.run.end
    assert isinstance(end, Raised)
    assert end.type == "JournalTooLarge"
    assert "step.continue_as_new" in end.message


def test_the_bytes_of_results_count_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "JOURNAL_BYTES_MAX", 10_000)

    async def code(step: Step) -> None:
        while True:
            await step.run(MUTATION)

    driver = Driver.started(code)
    driver.end("mutation", "x" * 9_000)
    assert driver.run.end is None
    driver.end("mutation", "x" * 1_000)
    assert isinstance(driver.run.end, Raised)


def test_calls_at_a_time_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "CALLS_OPEN_MAX", 2)

    async def code(step: Step) -> str:
        with pytest.raises(LimitExceeded, match="Semaphore"):
            await asyncio.gather(*(step.run(ACTION) for _ in range(3)))
        return "refused"

    assert Driver.started(code).result == "refused"


def test_a_result_that_cannot_be_stored_fails_the_run() -> None:
    async def code(step: Step) -> Any:
        return object()

    end = run_of(code)
    end.deliver(end.start_row(STARTED_AT))
    assert isinstance(end.end, Raised)
