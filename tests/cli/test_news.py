"""Commands that wait: a hint ends the wait, and what came meanwhile is one reason to look."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from evertick.base.ids import DEFAULT_TENANT
from evertick.cli.core.watching import ChangeWaiter
from evertick.store.open import open_store
from evertick.store.store import Store
from tests.store.rows import insert, new_job

ROOT = Path(__file__).resolve().parents[2]
FOR_EVER_S = 3_600.0


def test_hints_that_came_before_end_one_wait() -> None:
    store = open_store("sqlite://")
    store.migrate()
    with ChangeWaiter(store) as news:
        insert(store, new_job(1))
        insert(store, new_job(2))

        news.wait(FOR_EVER_S)
        assert news._hints.empty()
        insert(store, new_job(3))
        news.wait(FOR_EVER_S)
        assert news._hints.empty()
        news.wait(0.0)  # nothing is left: the time ends it
    store.close()


def test_who_left_hears_nothing() -> None:
    store = open_store("sqlite://")
    store.migrate()
    with ChangeWaiter(store) as news:
        pass
    insert(store, new_job(1))

    assert news._hints.empty()
    store.close()


def press_ctrl_c_at(line: int, work: Callable[[], None]) -> bool:
    """Run `work`; SIGINT comes at the line-th line of Evertick that it passes. Returns whether it got there."""
    passed = 0

    def count(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal passed
        if "/evertick/" not in frame.f_code.co_filename:
            return None
        if event == "line" and frame.f_code is not ChangeWaiter._interrupt.__code__:
            passed += 1
            if passed == line:
                signal.raise_signal(signal.SIGINT)
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return passed >= line


def write_under_ctrl_c(store: Store, line: int) -> tuple[bool, bool]:
    """Write a job in a command that waits: whether the line was reached, and whether the wait was interrupted."""
    job = new_job(line)
    with ChangeWaiter(store) as news:
        reached = press_ctrl_c_at(line, lambda: insert(store, job))
        try:
            news.wait(0.0)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
    assert store.read(lambda transaction: transaction.get_job(job.id, tenant=DEFAULT_TENANT)) is not None
    return reached, interrupted


def write_under_ctrl_c_at_every_line() -> None:
    """Raises AssertionError if a write is not whole, or the store of no use afterwards."""
    store = open_store("sqlite://")
    store.migrate()

    seen = [write_under_ctrl_c(store, line) for line in range(1, 250, 3)]

    assert all(reached == interrupted for reached, interrupted in seen)
    assert seen[10][0]
    assert not seen[-1][0]  # the write passes fewer lines: each was tried
    store.close()


@pytest.mark.long
def test_ctrl_c_at_any_line_of_a_write_lets_it_end_whole_and_the_store_usable() -> None:
    """In a process of its own: it sends signals to itself and traces every line, which other tests' threads delay."""
    code = "from tests.cli.test_news import write_under_ctrl_c_at_every_line as work\nwork()\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_second_ctrl_c_does_not_wait() -> None:
    store = open_store("sqlite://")
    before = signal.getsignal(signal.SIGINT)  # ignored, if this run was started in the background of a shell
    with pytest.raises(KeyboardInterrupt), ChangeWaiter(store):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    store.close()
