"""Time limits strike only in the user's code, and what has timed out stays timed out."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from evertick.base import time_limit
from evertick.base.time_limit import FunctionTimeout, Guard, Limit, TimeOver, current_guard

SOON_S = 0.02


@pytest.fixture
def fast_watcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A watcher that looks often, and threads that change places often."""
    monkeypatch.setattr(time_limit, "POLL_EVERY_S", 0.0005)
    monkeypatch.setattr(time_limit, "RAISE_AGAIN_S", 0.001)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(interval)


def spin(seconds: float = 100.0) -> None:
    """Count until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_loop_ends_soon_after_its_limit() -> None:
    began = time.monotonic()
    with pytest.raises(FunctionTimeout):
        current_guard().call(Limit(SOON_S), spin)
    assert time.monotonic() - began < 60


def test_a_function_that_ends_in_time_returns_or_raises_what_it_does() -> None:
    guard = current_guard()
    assert guard.call(Limit(10), lambda a, *, b: a + b, 1, b=2) == 3
    with pytest.raises(ZeroDivisionError):
        guard.call(Limit(10), lambda: 1 / 0)
    assert guard.inside
    assert not guard.is_limiting


@pytest.mark.parametrize(("limit", "by"), [(Limit(0.05, 0.05), TimeOver.WALL), (Limit(1.0, 0.05), TimeOver.CPU)])
def test_one_number_for_both_limits_is_a_limit_of_wall_time(limit: Limit, by: TimeOver) -> None:
    """A look that comes late finds both over."""
    guard = Guard()
    guard.limit, guard.deadline, guard.seen = limit, 1.0, (1.0, 0.5)
    guard.cpu_at_first = time.thread_time() - 10.0

    guard.poll(now=2.0)

    assert guard.over is not None
    assert guard.over.by is by


def test_what_catches_the_timeout_has_timed_out_all_the_same() -> None:
    def stubborn() -> str:
        try:
            spin()
        except BaseException:
            return "as if nothing had happened"
        return "never reached"

    with pytest.raises(FunctionTimeout):
        current_guard().call(Limit(SOON_S), stubborn)


def test_what_catches_the_timeout_and_goes_on_is_struck_again() -> None:
    caught: list[int] = []

    def more_stubborn() -> None:
        for number in range(3):
            try:
                spin()
            except FunctionTimeout:
                caught.append(number)
        spin()

    with pytest.raises(FunctionTimeout):
        current_guard().call(Limit(SOON_S), more_stubborn)
    assert caught == [0, 1, 2]


def test_inside_nothing_strikes_and_at_its_end_the_function_times_out() -> None:
    guard = current_guard()
    done: list[str] = []

    def engine() -> None:
        spin(5 * SOON_S)
        done.append("whole")

    def calls_the_engine() -> None:
        guard.run_inside(engine)
        done.append("went on")

    with pytest.raises(FunctionTimeout):
        guard.call(Limit(SOON_S), calls_the_engine)
    assert done == ["whole"]


def test_the_outer_limit_counts_for_a_function_that_is_called_inside() -> None:
    guard = current_guard()
    began = time.monotonic()

    def outer() -> None:
        with pytest.raises(FunctionTimeout):
            guard.call(Limit(60), spin)

    with pytest.raises(FunctionTimeout):
        guard.call(Limit(SOON_S), outer)
    assert time.monotonic() - began < 60


@pytest.mark.long
def test_a_limit_strikes_no_later_function() -> None:
    guard = current_guard()
    for _ in range(200):
        with pytest.raises(FunctionTimeout):
            guard.call(Limit(0.0), spin)
        assert guard.call(Limit(10), lambda: "fine") == "fine"


def test_the_watching_thread_ends_while_nothing_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "IDLE_ROUNDS", 1)
    current_guard().call(Limit(10), lambda: None)
    deadline = time.monotonic() + 10
    while time_limit._watcher is not None:
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)
    with pytest.raises(FunctionTimeout):
        current_guard().call(Limit(SOON_S), spin)


def wait() -> None:
    """Wait without computing, until struck."""
    while True:
        threading.Event().wait(0.005)


@pytest.mark.parametrize("has_clock", [True, False], ids=["its own clock", "the clock of the process"])
def test_what_computes_is_over_by_its_processor_time_and_what_waits_by_its_wall_time(
    has_clock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is busy otherwise uses up the wall time of a function, not its processor time."""
    if not has_clock:  # as on macOS and Windows
        monkeypatch.setattr(time_limit, "_cpu_clock", lambda: None)
    guard = Guard()
    monkeypatch.setattr(time_limit._thread_state, "guard", guard)
    time_limit._guards.append(guard)

    for limit, function, by in (
        (Limit(3_600, SOON_S), spin, TimeOver.CPU),
        (Limit(SOON_S, 3_600), wait, TimeOver.WAITED),
        (Limit(SOON_S), spin, TimeOver.WALL),
    ):
        with pytest.raises(FunctionTimeout) as caught:
            guard.call(limit, function)
        assert caught.value.over is not None
        assert caught.value.over.by is by


@pytest.mark.long
def test_processor_time_of_earlier_calls_does_not_count() -> None:
    guard = current_guard()
    for _ in range(10):
        guard.call(Limit(3_600, 0.5), spin, SOON_S * 4)


class _Engine:
    """Stands for the engine: its figures are even whenever its code is not running."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.begun = self.ended = self.depth = 0

    def work(self, turns: int) -> None:
        """Engine code that user code calls."""
        self.guard.run_inside(self._work, turns)

    def _work(self, turns: int) -> None:
        self.begun += 1
        for _ in range(turns):
            pass
        self.ended += 1

    def frame(self, function: Any, *args: Any) -> None:
        """Engine code that calls user code."""
        self.guard.run_inside(self._frame, function, *args)

    def _frame(self, function: Any, *args: Any) -> None:
        self.depth += 1
        try:
            self.guard.call_outside(function, *args)
        finally:
            self._work(20)
            self.depth -= 1

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it was cut off."""
        return self.begun == self.ended and self.depth == 0


def random_function(chance: random.Random, engine: _Engine, depth: int = 0) -> None:
    """User code: calls of the engine, frames within frames, errors, loops, and a timeout swallowed now and then."""
    for _ in range(chance.randint(0, 30)):
        engine.work(chance.randint(0, 200))
        what = chance.random()
        if what < 0.1 and depth < 3:
            try:
                engine.frame(random_function, chance, engine, depth + 1)
            except ValueError:
                pass
        elif what < 0.12:
            raise ValueError
        elif what < 0.17:
            try:
                for _ in range(2_000):
                    pass
            except BaseException:
                pass


@pytest.mark.long
def test_whatever_instant_a_limit_strikes_at_the_engine_stays_whole(
    fast_watcher: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A function may be struck in a finalizer, which Python tells this hook; pytest's own, struck again, is an error.
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    faults: list[str] = []
    timed_out: list[int] = []

    def run(seed: int) -> None:
        chance, guard = random.Random(seed), current_guard()
        for number in range(1_500):
            engine = _Engine(guard)
            try:
                guard.call(Limit(chance.choice((0.0004, 0.001, 0.003))), random_function, chance, engine)
            except FunctionTimeout:
                timed_out.append(number)
            except ValueError:
                pass
            if not engine.is_whole or guard.is_limiting or guard.fired or not guard.inside:
                faults.append(f"seed {seed}, function {number}: {vars(engine)}")
            try:
                for _ in range(100):
                    pass
            except FunctionTimeout:
                faults.append(f"seed {seed}: struck after function {number}")

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(timed_out) > 100


PROFILED = """
import sys
from evertick.base.time_limit import FunctionTimeout, Limit, current_guard

def spin():
    while True:
        pass

def called():
    return "called"

try:
    current_guard().call(Limit(0.01), spin)
except FunctionTimeout:
    pass
sys.setprofile(lambda frame, event, argument: None)
print(called())
"""


def test_a_profiler_works_after_a_timeout() -> None:
    """CPython 3.11 kept the flag up that an exception is under way, and then begins no function under a profiler."""
    ran = subprocess.run([sys.executable, "-c", PROFILED], capture_output=True, text=True, timeout=60, check=False)

    assert ran.stdout == "called\n", ran.stderr
