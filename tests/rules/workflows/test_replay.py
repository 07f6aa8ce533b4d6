"""Replay: the same calls from the same rows; what differs is told with both sides."""

import asyncio
import itertools
import re
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from evertick.base.errors import ReplayMismatch
from evertick.base.records.workflows import Row, RowKind
from evertick.rules.workflows.event_loop import NumberedTask
from evertick.rules.workflows.replay import stretches
from evertick.rules.workflows.step import Step
from tests.rules.workflows.driving import ACTION, CHILD, MUTATION, Driver
from tests.rules.workflows.fuzz import Report, fuzz_seed

SEEDS = 40


async def order(step: Step) -> Any:
    reserved = await step.using(name="reserve").run(MUTATION, 1)
    paid = await step.using(name="charge").run(ACTION, 2)
    await step.using(name="ship").run(MUTATION, 3)
    return [reserved, paid]


def shipped() -> Driver:
    """An order up to its end."""
    driver = Driver.started(order)
    driver.end("reserve", "r")
    driver.end("charge", "c")
    driver.end("ship")
    return driver


def test_a_journal_brings_the_run_to_its_end() -> None:
    driver = shipped()
    again = driver.replayed(order)
    assert again.end == driver.run.end
    assert (again.position, again.size, again.now) == (driver.run.position, driver.run.size, driver.run.now)
    assert again.log == driver.run.log


def test_a_part_of_a_journal_brings_the_run_to_where_it_can_go_on() -> None:
    driver = shipped()
    again = Driver(driver.replayed(order, rows=driver.rows[:3]), list(driver.rows[:3]), driver.now)
    assert again.waits_for == ["charge"]
    again.end("charge", "other")
    again.end("ship")
    assert again.result == ["r", "other"]


def test_the_key_of_a_child_belongs_to_its_call_and_other_options_do_not() -> None:
    def parent(**options: Any) -> Any:
        async def code(step: Step) -> None:
            await step.using(**options).workflow(CHILD)

        return code

    driver = Driver.started(parent(key="page-1", attributes={"n": 1}, priority=1))
    again = driver.replayed(parent(key="page-1", attributes={"n": 2}, priority=7))
    assert (again.position, again.error) == (driver.run.position, None)
    for other in ({"key": "page-2"}, {}):
        with pytest.raises(ReplayMismatch, match="calls it with other arguments now"):
            driver.replayed(parent(**other))
    with pytest.raises(ReplayMismatch, match="or another key: 'page-2'"):
        driver.replayed(parent(key="page-2"))
    unkeyed = Driver.started(parent())
    unkeyed.replayed(parent(attributes={"n": 1}))


def message_of(code: Any, rows: Sequence[Row]) -> str:
    """The message of the replay's mismatch."""
    with pytest.raises(ReplayMismatch) as caught:
        shipped().replayed(code, rows=rows)
    return str(caught.value)


def test_a_mismatch_names_the_row_and_both_sides() -> None:
    rows = shipped().rows

    async def renamed(step: Step) -> None:
        await step.using(name="reserve").run(MUTATION, 1)
        await step.using(name="pay").run(ACTION, 2)

    assert message_of(renamed, rows).startswith(
        "run run_1, row 2: the journal has step 2 (action 'charge'), the code calls step 2 (action 'pay') here; "
    )

    async def other_arguments(step: Step) -> None:
        await step.using(name="reserve").run(MUTATION, "one")

    assert "row 1: the journal has step 1 (mutation 'reserve'), the code calls it with other arguments now: [" in (
        message_of(other_arguments, rows)
    )

    async def ends_early(step: Step) -> None:
        await step.using(name="reserve").run(MUTATION, 1)

    assert "row 2: the journal has step 2 (action 'charge'), the code ends without it" in message_of(ends_early, rows)

    async def sleeps(step: Step) -> None:
        await step.using(name="reserve").run(MUTATION, 1)
        await step.sleep(5)

    assert "the code calls step 2 (sleep 'sleep') here" in message_of(sleeps, rows)

    async def waits(step: Step) -> None:
        await step.using(name="reserve").run(MUTATION, 1)
        await asyncio.Event().wait()

    assert "the code waits for nothing and does not call it" in message_of(waits, rows)

    async def begins_otherwise(step: Step) -> None:
        await step.sleep(5)

    assert "row 1: the journal has step 1 (mutation 'reserve'), the code calls step 1 (sleep 'sleep') here" in (
        message_of(begins_otherwise, rows)
    )


def test_a_journal_with_a_gap_is_not_replayed() -> None:
    rows = shipped().rows
    assert "row 2 is missing" in message_of(order, [*rows[:2], *rows[3:]])
    assert "row 1 is missing" in message_of(order, [rows[0], rows[0]])
    assert "the code has begun before" in message_of(order, [rows[0], rows[0]._replace(position=1)])


def test_a_row_that_the_code_does_not_wait_for_is_not_delivered() -> None:
    rows = shipped().rows
    assert "does not wait for step 9" in message_of(order, [*rows[:3], rows[3]._replace(seq=9)])
    assert "has ended" in message_of(order, [*rows, rows[-1]._replace(position=len(rows))])
    assert "has not begun" in message_of(order, [rows[1]._replace(position=0)])
    end_of_a_mutation = rows[1]._replace(kind=RowKind.END)
    assert "waits for mutation 'reserve' under this number" in message_of(order, [rows[0], end_of_a_mutation])


def test_arguments_are_not_compared_where_the_code_says_so() -> None:
    values = itertools.count()

    async def code(step: Step) -> None:
        await step.using(check_args=False).run(MUTATION, next(values))

    driver = Driver.started(code)
    driver.end("mutation")
    assert driver.replayed(code).end == driver.run.end


def test_a_patch_takes_the_new_path_only_where_the_old_one_is_not_recorded() -> None:
    async def old(step: Step) -> str:
        await step.using(name="one").run(ACTION)
        await step.using(name="two").run(ACTION)
        return "old"

    async def new(step: Step) -> str:
        await step.using(name="one").run(ACTION)
        if step.patched("second"):
            await step.using(name="second").run(ACTION)
            return "new"
        await step.using(name="two").run(ACTION)
        return "old"

    before = Driver.started(old)
    cut = len(before.rows)
    before.end("one")
    assert before.replayed(new).next_request is None
    assert next(iter(before.replayed(new).open_calls.values())).name == "two"

    again = Driver(before.replayed(new, rows=before.rows[:cut]), list(before.rows[:cut]), before.now)
    again.end("one")
    assert [(row.kind, row.name) for row in again.rows[-2:]] == [(RowKind.PATCH, "second"), (RowKind.CALL, "second")]
    again.end("second")
    assert again.result == "new"
    assert again.replayed(new).end == again.run.end
    with pytest.raises(ReplayMismatch) as caught:
        again.replayed(old)
    assert "the journal has step 2 (action 'second'), the code calls step 2 (action 'two') here, and asks" in str(
        caught.value
    )
    assert "no longer for patched('second'), whose new path the run has taken; deploy" in str(caught.value)


def test_code_that_no_longer_asks_for_a_patch_goes_on_with_the_runs_that_took_its_path() -> None:
    async def asks(step: Step) -> list[bool]:
        answers = [step.patched("a"), step.patched("b")]
        await step.using(name="one").run(ACTION)
        answers.append(step.patched("a"))
        await step.using(name="two").run(ACTION)
        return answers

    async def asks_late(step: Step) -> list[bool]:
        await step.using(name="one").run(ACTION)
        answers = [step.patched("a"), step.patched("a")]
        await step.using(name="two").run(ACTION)
        return [*answers, True]

    async def asks_for_none(step: Step) -> list[bool]:
        await step.using(name="one").run(ACTION)
        await step.using(name="two").run(ACTION)
        return [True] * 3

    driver = Driver.started(asks)
    assert [row.name for row in driver.rows] == ["", "a", "b", "one"]
    driver.end("one")
    for code in (asks_late, asks_for_none):
        again = Driver(driver.replayed(code), list(driver.rows), driver.now)
        again.end("two")
        assert again.result == [True] * 3
        assert [row.kind for row in again.rows].count(RowKind.PATCH) == 2
        assert again.replayed(code).end == again.run.end


@pytest.mark.parametrize("steps", [0, 1])
def test_code_that_raises_where_the_journal_goes_on_says_what_it_raised_and_where(steps: int) -> None:
    async def fails(step: Step) -> None:
        for _ in range(steps):
            await step.using(name="reserve").run(MUTATION, 1)
        raise ValueError("oops " + 2_000 * "x")

    with pytest.raises(ReplayMismatch) as caught:
        shipped().replayed(fails)
    line = fails.__code__.co_firstlineno + 3
    assert re.search(
        rf"the code (has ended|ends) with ValueError: oops x{{995}} \(test_replay\.py:{line}\)", str(caught.value)
    )
    assert str(caught.value.__cause__).startswith("oops")


def test_what_was_given_up_is_compared() -> None:
    async def code(step: Step, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await step.workflow(CHILD)
        except TimeoutError:
            await step.run(MUTATION)

    async def patient(step: Step) -> None:
        try:
            async with asyncio.timeout(3):
                await asyncio.shield(asyncio.ensure_future(step.workflow(CHILD)))
        except TimeoutError:
            await step.run(MUTATION)

    driver = Driver.started(code, 3)
    driver.end("asyncio")
    assert driver.replayed(code, 3).log == driver.run.log
    with pytest.raises(ReplayMismatch, match=r"the journal has step 2 .giving up 'child'."):
        driver.replayed(patient)


def test_a_journal_may_be_cut_before_rows_that_are_delivered() -> None:
    rows = shipped().rows
    assert [row.kind for row in rows] == [RowKind.START, RowKind.STEP, RowKind.CALL, RowKind.END, RowKind.STEP]
    assert stretches(rows) == [0, 1, 3, 4, 5]


def test_the_time_of_a_timer_is_that_of_the_journal() -> None:
    async def code(step: Step, seconds: float) -> None:
        await step.sleep(seconds)

    driver = Driver.started(code, 5)
    assert driver.replayed(code, 500).next_due_at == driver.run.next_due_at


@pytest.mark.long
def test_random_workflows_replay_at_every_cut_and_notice_edits() -> None:
    report = Report()
    for seed in range(SEEDS):
        fuzz_seed(seed, report)
    assert not report.faults
    assert report.workflows == SEEDS
    assert report.cuts > 300
    assert report.edits.total() > 100
    assert set(report.kinds) >= {"cancel", "drop", "patch", "call workflow", "call job", "call timer", "step query"}


@pytest.mark.long
def test_the_fuzzer_notices_tasks_that_are_hashed_otherwise_at_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """As addresses are: sets of tasks then have another order each time."""
    numbers = itertools.count()

    def __init__(self: NumberedTask, number: int, coroutine: Any, **options: Any) -> None:
        self._number = zlib.crc32(str(next(numbers)).encode())
        asyncio.Task.__init__(self, coroutine, **options)

    monkeypatch.setattr(NumberedTask, "__init__", __init__)
    report = Report()
    for seed in range(SEEDS):
        fuzz_seed(seed, report)
    assert report.faults


def test_a_long_run_costs_no_more_for_each_step() -> None:
    """Callbacks and rows of a step are as many in the thousandth step as in the first."""

    async def code(step: Step) -> int:
        for each in range(2_000):
            async with asyncio.timeout(60):
                await step.run(MUTATION, each)
        return each

    driver = Driver.started(code)
    for _ in range(2_000):
        driver.end("mutation")
        assert len(driver.run.open_calls) <= 2
    assert driver.result == 1_999
    assert driver.replayed(code).end == driver.run.end
