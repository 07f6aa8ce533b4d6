"""Steps of coroutines are struck only in the user's code, and neither their event loop nor later steps ever are."""

import asyncio
import logging
import random
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from inspect import CORO_SUSPENDED, getcoroutinestate
from typing import Any

import pytest

from evertick.base import step_limit, time_limit
from evertick.base.step_limit import Blocking, StepLimit, blocker_of, tasks_within_limits
from evertick.base.time_limit import FunctionTimeout, current_guard

SOON_S = 0.02
LONG_S = 60.0


def spin(seconds: float = 100.0) -> None:
    """Count until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


class Limited:
    """Runs coroutines within limits, on a loop whose tasks are within them."""

    def __init__(self) -> None:
        self.over: list[bool] = []
        self.held: list[Blocking] = []

    def run(self, coroutine: Coroutine[Any, Any, Any], limit_s: float = SOON_S, within_s: float = LONG_S) -> Any:
        """What the coroutine returns; raises what it raises."""

        async def main() -> Any:
            asyncio.get_running_loop().set_task_factory(tasks_within_limits)
            return await self.limit("main", limit_s, within_s).around(coroutine)

        return asyncio.run(main())

    def limit(self, name: str, limit_s: float, within_s: float = LONG_S) -> StepLimit:
        """A limit whose calls are kept."""
        return StepLimit(
            name,
            limit_s,
            within_s,
            on_over=lambda has_ended, _: self.over.append(has_ended),
            on_blocking=self.held.append,
        )


@pytest.fixture
def limited() -> Limited:
    return Limited()


async def spinning() -> None:
    await asyncio.sleep(0)
    spin()


def test_a_step_that_takes_too_long_is_struck(limited: Limited) -> None:
    began = time.monotonic()
    with pytest.raises(FunctionTimeout):
        limited.run(spinning())
    assert time.monotonic() - began < 60
    assert limited.over == [True]


def test_steps_return_and_raise_and_are_canceled_as_they_would_without_a_limit(limited: Limited) -> None:
    async def returns() -> str:
        await asyncio.sleep(0)
        return "done"

    async def raises() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    async def canceled() -> list[str]:
        async def part() -> None:
            await asyncio.sleep(LONG_S)

        task = asyncio.create_task(part())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(0.001):
            await asyncio.sleep(LONG_S)
        return []

    assert limited.run(returns()) == "done"
    with pytest.raises(ValueError, match="its own"):
        limited.run(raises())
    with pytest.raises(TimeoutError):
        limited.run(canceled(), LONG_S)
    assert limited.over == []


def test_what_catches_the_timeout_and_goes_on_is_told_of(limited: Limited) -> None:
    async def stubborn() -> str:
        try:
            spin()
        except BaseException:
            await asyncio.sleep(0)
        return "done"

    assert limited.run(stubborn()) == "done"
    assert limited.over == [False]


def test_a_step_has_a_moment_also_when_the_whole_time_is_over(limited: Limited) -> None:
    async def late() -> str:
        await asyncio.sleep(0)
        spin(SOON_S)
        return "done"

    assert limited.run(late(), LONG_S, -1.0) == "done"


def test_the_tasks_of_a_coroutine_share_its_limit_and_look_like_what_they_are(limited: Limited) -> None:
    async def part() -> None:
        await asyncio.sleep(LONG_S)

    async def group() -> str:
        task = asyncio.create_task(part(), name="part")
        await asyncio.sleep(0)
        assert "part()" in repr(task)
        assert getcoroutinestate(task.get_coro()) == CORO_SUSPENDED  # type: ignore[arg-type]
        task.cancel()
        with pytest.raises(FunctionTimeout):
            await asyncio.gather(spinning())
        return "done"

    assert limited.run(group()) == "done"
    assert limited.over == [False]


def test_tasks_that_are_made_outside_of_steps_are_none_of_its_business() -> None:
    async def main() -> str:
        asyncio.get_running_loop().set_task_factory(tasks_within_limits)
        task = asyncio.create_task(asyncio.sleep(0, "done"))
        assert isinstance(task.get_coro(), Coroutine)
        assert not hasattr(task.get_coro(), "_evertick_limit")
        return await task

    assert asyncio.run(main()) == "done"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long is told of soon."""
    monkeypatch.setattr(step_limit, "REPORT_AFTER_S", 0.01)
    monkeypatch.setattr(step_limit, "STUCK_AFTER_S", 0.01)


def test_what_no_exception_reaches_is_told_of_with_its_place(limited: Limited, soon: None) -> None:
    told = threading.Event()
    names: list[str | None] = []

    class Telling(list[Blocking]):
        def append(self, held: Blocking) -> None:
            super().append(held)
            if held.is_stuck:
                names.append(blocker_of(loop[0]))
                told.set()

    loop: list[asyncio.AbstractEventLoop] = []

    async def waits() -> None:
        async def part() -> None:
            told.wait(LONG_S)

        loop.append(asyncio.get_running_loop())
        await asyncio.create_task(part(), name="part")

    limited.held = Telling()
    with pytest.raises(FunctionTimeout):
        limited.run(waits())

    assert [held.is_stuck for held in limited.held] == [False, True]
    assert all(__file__ in held.where and held.where.endswith(" in part") for held in limited.held)
    assert names == ["main (part)"]


@pytest.mark.long
def test_a_step_in_code_that_all_share_is_struck_a_moment_later(
    limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_limit, "SHARED_FOR_S", 0.2)

    async def logs() -> None:
        exec(compile("while True: pass", "logging.py", "exec"), {"__name__": "logging.handlers"})

    async def ours() -> None:
        code = "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass"
        exec(compile(code, "engine.py", "exec"), {"__name__": "evertick.engine"})
        done.append("whole")
        spin()

    done: list[str] = []
    began = time.monotonic()
    with pytest.raises(FunctionTimeout):
        limited.run(logs())
    assert time.monotonic() - began > 0.2
    with pytest.raises(FunctionTimeout):
        limited.run(ours())
    assert done == ["whole"]


# -- any instant


@pytest.fixture
def fast_watcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A watcher that looks often, and threads that change places often."""
    monkeypatch.setattr(time_limit, "POLL_EVERY_S", 0.0005)
    monkeypatch.setattr(time_limit, "RAISE_AGAIN_S", 0.001)
    monkeypatch.setattr(step_limit, "LEAST_S", 0.0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(interval)


class _Engine:
    """Stands for the engine: its figures are even whenever its code is not running."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    def work(self, turns: int) -> None:
        """Code of ours that runs between steps, or that a step calls."""
        self.begun += 1
        for _ in range(turns):
            pass
        self.ended += 1

    async def turn(self) -> None:
        """A task of ours beside those of users."""
        while True:
            self.work(50)
            await asyncio.sleep(0)


async def random_steps(chance: random.Random, engine: _Engine, depth: int = 0) -> None:
    """User code: awaits, calls of the engine, tasks, errors, loops, and a timeout swallowed now and then."""
    for _ in range(chance.randint(0, 12)):
        what = chance.random()
        if what < 0.3:
            await asyncio.sleep(0)
        elif what < 0.5:
            current_guard().run_inside(engine.work, chance.randint(0, 200))
        elif what < 0.6 and depth < 2:
            await asyncio.gather(*(random_steps(chance, engine, depth + 1) for _ in range(2)), return_exceptions=True)
        elif what < 0.62:
            raise ValueError
        elif what < 0.9:
            try:
                for _ in range(20_000):
                    pass
            except BaseException:
                if chance.random() < 0.5:
                    raise


@pytest.mark.long
def test_whatever_instant_a_step_is_struck_at_the_loop_stays_whole(
    fast_watcher: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    faults: list[str] = []
    timed_out: list[int] = []

    async def one(seed: int, engine: _Engine) -> None:
        chance, limited = random.Random(seed), Limited()
        limit = limited.limit("one", chance.choice((0.0004, 0.001)), chance.choice((0.002, LONG_S)))
        try:
            await limit.around(random_steps(chance, engine))
        except FunctionTimeout:
            timed_out.append(seed)
        except ValueError:
            pass
        engine.work(100)

    async def main(first: int) -> None:
        loop, engine, guard = asyncio.get_running_loop(), _Engine(), current_guard()
        loop.set_task_factory(tasks_within_limits)
        loop.set_exception_handler(lambda _, context: None)  # tasks that nobody awaits
        ours = asyncio.create_task(engine.turn())
        for begin in range(first, first + 600, 20):
            ends = await asyncio.gather(
                *(one(seed, engine) for seed in range(begin, begin + 20)), return_exceptions=True
            )
            faults.extend(f"seeds from {begin}: {end!r}" for end in ends if end is not None)
            if guard.deadline or guard.fired or not guard.inside or guard.step is not None:
                faults.append(f"seeds from {begin}: the guard is left in a step")
        if ours.done() or engine.begun != engine.ended:
            faults.append(f"seeds from {first}: {engine.begun} begun, {engine.ended} ended")
        ours.cancel()

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    threads = [threading.Thread(target=asyncio.run, args=(main(first),)) for first in (0, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(timed_out) > 100


LOOKS_WHILE_GARBAGE_IS_COLLECTED = """
import gc, threading
from evertick.base.step_limit import _frame_of

class Garbage:
    def __init__(self):
        self.itself, self.local = self, threading.local()
        self.local.value = 1

for _ in range(10):
    gc.disable()
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    garbage = [Garbage() for _ in range(10)]
    del garbage
    gc.set_threshold(gc.get_count()[0] + 10)  # while the frames of the threads are made
    gc.enable()
    assert _frame_of(threads[0].ident) is not None and gc.isenabled()
    gc.disable()
    end.set()
    for thread in threads:
        thread.join()
"""


def test_a_look_at_a_thread_does_not_wait_for_ever_for_the_garbage_collector() -> None:
    """Real once: the whole process stood still, because Python 3.11 collects garbage in `sys._current_frames`."""
    subprocess.run([sys.executable, "-c", LOOKS_WHILE_GARBAGE_IS_COLLECTED], check=True, timeout=60)
