"""Exceptions in other threads: the flag that they leave up is lowered, whatever the garbage collector does."""

import gc
import threading

import pytest

from evertick.base import time_limit


def test_an_exception_that_a_finalizer_has_swallowed_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real once, on Python 3.12: the thread that watches the time limits waited for good, so no limit held any more."""
    raise_in, take_back = time_limit.exceptions_in_threads()
    collects: list[bool] = []

    def swallowed_at_first(thread: int, error: type[BaseException]) -> int:
        collects.append(gc.isenabled())
        return 1 if len(collects) == 1 else raise_in(thread, error)

    monkeypatch.setattr(time_limit, "exceptions_in_threads", lambda: (swallowed_at_first, take_back))
    thread = threading.Thread(target=time_limit.lower_flag, daemon=True)
    thread.start()
    thread.join(30)

    assert not thread.is_alive()
    assert len(collects) == 2
    assert not any(collects), "no finalizer of others may be cut off"
    assert gc.isenabled()
