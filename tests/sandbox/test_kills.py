"""Processes of the sandbox die: their runs end as `killed`, and the next run works at once."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evertick.sandbox import (
    Ended,
    HostFunction,
    Language,
    Limits,
    Outcome,
    Sandbox,
    SandboxUnavailable,
    ScriptRun,
    pool,
)
from tests.sandbox.conftest import javascript

PATIENT = Limits(cpu_ms=10_000, wall_ms=60_000)


@pytest.fixture
def own() -> Iterator[Sandbox]:
    """A sandbox of the test's own, whose zygote may be killed."""
    with Sandbox() as opened:
        yield opened


class Held:
    """A run that waits in a host function, until it is released."""

    def __init__(self, sandbox: Sandbox, run_id: str = "held", language: Language = Language.JAVASCRIPT) -> None:
        self.inside, self.release = threading.Event(), threading.Event()
        self.ends: list[Ended] = []
        source = {
            Language.JAVASCRIPT: "export default async ctx => { await ctx.hold(); return 1 }",
            Language.PYTHON: "def main(ctx):\n  ctx.hold()\n  return 1",
        }[language]
        functions = {"hold": HostFunction(self.hold)}
        run = ScriptRun(run_id, language, source, {}, PATIENT, functions)
        self.thread = threading.Thread(target=lambda: self.ends.append(sandbox.run(run)))
        self.thread.start()
        assert self.inside.wait(30)

    def hold(self, call: object) -> None:
        self.inside.set()
        self.release.wait(60)

    def end(self, *, released: bool = True) -> Ended:
        if released:
            self.release.set()
        self.thread.join(60)
        self.release.set()
        return self.ends[0]


def zygote_of(sandbox: Sandbox) -> pool.Zygote:
    assert sandbox._zygote is not None
    return sandbox._zygote


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("language", list(Language))
def test_the_runs_of_a_zygote_that_dies_are_killed_and_the_next_one_works(own: Sandbox, language: Language) -> None:
    held = Held(own, language=language)
    zygote = zygote_of(own)
    children = children_of(zygote.process.pid)

    zygote.process.kill()

    assert held.end(released=False).outcome is Outcome.KILLED
    assert own.run(javascript("return 1", limits=PATIENT)).result == "1"
    assert own.restarts == 1
    assert zygote_of(own) is not zygote
    until = time.monotonic() + 30
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < until, "a child has outlived its zygote"
        time.sleep(0.01)


def test_a_child_that_is_killed_from_outside_ends_as_killed(own: Sandbox) -> None:
    held = Held(own)

    for child in children_of(zygote_of(own).process.pid):
        os.kill(child, signal.SIGKILL)

    assert held.end().outcome is Outcome.KILLED
    assert own.run(javascript("return 1", limits=PATIENT)).result == "1"
    assert own.restarts == 0


def test_a_zygote_that_hangs_is_replaced(own: Sandbox) -> None:
    held = Held(own)
    os.kill(zygote_of(own).process.pid, signal.SIGSTOP)

    ended = held.end()

    assert ended.outcome is Outcome.OK, "the result was read before anything was asked of the zygote"
    assert own.run(javascript("return 1", limits=PATIENT)).result == "1"
    assert own.restarts == 1


def test_close_kills_the_runs_and_refuses_new_ones() -> None:
    sandbox = Sandbox()
    held = Held(sandbox)
    zygote = zygote_of(sandbox)

    sandbox.close()

    assert held.end(released=False).outcome is Outcome.KILLED
    assert zygote.process.poll() is not None
    with pytest.raises(SandboxUnavailable):
        sandbox.run(javascript("return 1"))


def test_a_worn_zygote_is_replaced_and_ends_with_its_last_run(own: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(own)
    old = zygote_of(own)
    monkeypatch.setattr(pool, "ZYGOTE_RUNS", 1)

    assert own.run(javascript("return 1", limits=PATIENT)).result == "1"

    assert zygote_of(own) is not old
    assert old.process.poll() is None
    ended = held.end()
    old.process.wait(30)
    assert (ended.outcome, own.restarts) == (Outcome.OK, 0)


def test_a_zygote_ends_with_its_supervisor() -> None:
    """The supervisor's end of the socket closes when its process dies, however it dies."""
    sandbox = Sandbox()
    sandbox.start()
    zygote = zygote_of(sandbox)

    zygote.control.shutdown(2)

    zygote.process.wait(30)
    sandbox.close()


def test_a_zygote_outlives_signals_that_are_meant_for_the_whole_service(own: Sandbox) -> None:
    """The service decides when its runs end: it may wait for them before it does."""
    held = Held(own)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(zygote_of(own).process.pid, number)

    assert held.end().outcome is Outcome.OK
    assert own.restarts == 0


@pytest.mark.parametrize("boot", ["raise SystemExit(3)", "import os, sys; os.write(int(sys.argv[3]), b'hello')"])
def test_a_zygote_that_does_not_start_makes_the_sandbox_unavailable(monkeypatch: pytest.MonkeyPatch, boot: str) -> None:
    sandbox = Sandbox()
    monkeypatch.setattr(pool, "BOOT", boot)

    with pytest.raises(SandboxUnavailable, match="does not start"):
        sandbox.start()

    monkeypatch.undo()
    with sandbox:
        assert sandbox.run(javascript("return 1", limits=PATIENT)).result == "1"


@pytest.mark.long
def test_two_hundred_kills_over_a_thousand_runs(own: Sandbox) -> None:
    """Each run ends as ok or killed, no other way, and the sandbox is there again each time."""
    ends: list[Ended] = []
    stop = threading.Event()

    def work(name: int) -> None:
        for number in range(250):
            ends.append(own.run(javascript("return 1", f"{name}-{number}", PATIENT)))

    def kill() -> None:
        killed = 0
        while not stop.is_set() and killed < 200:
            zygote = own._zygote
            if zygote is not None and not zygote.dead:
                victims = children_of(zygote.process.pid) if killed % 4 else [zygote.process.pid]
                for victim in victims[:1]:
                    with contextlib.suppress(ProcessLookupError):  # it ended by itself
                        os.kill(victim, signal.SIGKILL)
                        killed += 1
            stop.wait(0.02)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    killer = threading.Thread(target=kill)
    for thread in (*threads, killer):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    killer.join()

    assert len(ends) == 1_000
    assert {end.outcome for end in ends} <= {Outcome.OK, Outcome.KILLED}
    assert own.restarts > 10
    assert own.run(javascript("return 1", limits=PATIENT)).result == "1"
