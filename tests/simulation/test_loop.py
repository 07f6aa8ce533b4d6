"""The deterministic loop: one seed is one schedule, a kill lets nobody have a last word, a stuck run is reported."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evertick.base.instants import Instant
from tests.simulation import sample
from tests.simulation.faults import Fault, Faults, parse_plan, plan_text
from tests.simulation.loop import Deadlock, Livelock, SimulatedClock, SimulationLoop
from tests.simulation.minimise import minimise
from tests.simulation.processes import ProcessKilled, ProcessState, current_process

ROOT = Path(__file__).parent.parent.parent


def run_sample(seed: int, hash_seed: int) -> str:
    """One run of the sample in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.sample", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.long
def test_a_seed_gives_the_same_run_in_every_interpreter() -> None:
    """Neither the hash seed nor the addresses of tasks have a say."""
    runs = {run_sample(3, hash_seed) for hash_seed in (0, 1, 4_000_000_000)}

    assert runs == {sample.main(3, None) + "\n"}


def test_different_seeds_give_different_runs() -> None:
    """What the seed decides is the interleaving and the faults."""
    assert len({sample.main(seed, None).split()[0] for seed in range(20)}) == 20


@pytest.mark.parametrize("seed", range(30))
def test_the_logged_faults_replay_the_run(seed: int) -> None:
    """The log of a run is a plan with which it runs exactly the same way, without drawing."""
    run = sample.main(seed, None)

    assert sample.main(seed, run.partition(" ")[2].split(" ")[2]) == run


def test_callbacks_of_one_process_keep_their_order_and_processes_interleave() -> None:
    """FIFO within a process, as asyncio promises; between processes, any order."""
    orders = set()
    for seed in range(40):
        steps: list[str] = []

        async def note(name: str, steps: list[str] = steps) -> None:
            for number in range(3):
                steps.append(f"{name}{number}")
                await asyncio.sleep(0)

        async def scenario(loop: SimulationLoop) -> None:
            for process in [loop.spawn(name, note, name) for name in "ab"]:
                await process.ended()

        with SimulationLoop(seed) as loop:
            loop.run(scenario(loop))
        assert [step for step in steps if step[0] == "a"] == ["a0", "a1", "a2"]
        assert [step for step in steps if step[0] == "b"] == ["b0", "b1", "b2"]
        orders.add(tuple(steps))
    assert len(orders) > 10


def test_time_jumps_over_every_wait() -> None:
    """A year of waiting takes no time, and timers run in the order of their moments."""
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(name)

    async def scenario(loop: SimulationLoop) -> float:
        await asyncio.gather(sleeper("year", 31_536_000.0), sleeper("blink", 0.001), sleeper("day", 86_400.0))
        return loop.time()

    with SimulationLoop(1) as loop:
        assert loop.run(scenario(loop)) == 31_536_000.0
    assert woken == ["blink", "day", "year"]


def test_a_killed_process_gets_no_last_word_before_the_verdict() -> None:
    """SIGKILL: neither `finally` nor `except` runs; what is left is cleared away when the loop closes."""
    words: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(5)
            words.append("done")
        except BaseException:
            words.append("except")
            raise
        finally:
            words.append("finally")

    async def scenario(loop: SimulationLoop) -> None:
        process = loop.spawn("victim", stubborn)
        await asyncio.sleep(1)
        loop.kill(process)
        await process.ended()
        await asyncio.sleep(10)
        assert process.state is ProcessState.KILLED
        assert not process.alive

    with SimulationLoop(1) as loop:
        loop.run(scenario(loop))
        assert words == []
        assert loop.errors == []
    assert words == ["except", "finally"]


def test_a_crash_at_a_point_leaves_synchronous_code_at_once() -> None:
    """The process is dead when the code unwinds, and every later point says so again."""
    reached: list[str] = []

    async def commit(loop: SimulationLoop) -> None:
        try:
            loop.point("commit.before")
            reached.append("committed")
        except ProcessKilled:
            reached.append(f"unwinding, alive: {current_process().alive}")
            loop.point("commit.after")

    async def scenario(loop: SimulationLoop) -> None:
        await loop.spawn("w", commit, loop).ended()

    with SimulationLoop(1, plan=[Fault("crash/commit.before", 1)]) as loop:
        loop.run(scenario(loop))
        assert reached == ["unwinding, alive: False"]
        assert loop.points == {"commit.before": 1, "commit.after": 1}
    with SimulationLoop(1, plan=[]) as loop:
        loop.run(scenario(loop))
    assert reached[1:] == ["committed"]


def test_a_paused_process_stands_still_and_goes_on() -> None:
    """SIGSTOP: its timers pass unseen, others run on, and it continues where it was."""
    ticks: dict[str, list[float]] = {"paused": [], "other": []}

    async def tick(loop: SimulationLoop, name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ticks[name].append(loop.time())

    async def scenario(loop: SimulationLoop) -> None:
        processes = [loop.spawn(name, tick, loop, name) for name in ("paused", "other")]
        await asyncio.sleep(1.5)
        loop.pause(processes[0], 10)
        for process in processes:
            await process.ended()

    with SimulationLoop(1) as loop:
        loop.run(scenario(loop))
    assert ticks == {"paused": [1.0, 11.5, 12.5], "other": [1.0, 2.0, 3.0]}


def test_drawn_faults_spare_the_world_and_what_is_not_killable() -> None:
    """With certain death at every step, only killable processes die."""

    async def wait() -> None:
        await asyncio.sleep(1)

    async def scenario(loop: SimulationLoop) -> tuple[ProcessState, ProcessState]:
        mortal, immortal = loop.spawn("mortal", wait), loop.spawn("immortal", wait, killable=False)
        await mortal.ended()
        await immortal.ended()
        return mortal.state, immortal.state

    with SimulationLoop(1, rates={"kill": 1.0}) as loop:
        assert loop.run(scenario(loop)) == (ProcessState.KILLED, ProcessState.EXITED)
        assert loop.faults.plan == (Fault("kill", 1),)


def test_when_a_process_returns_its_other_tasks_are_cancelled_and_awaited() -> None:
    """As asyncio.run does it; an orderly end is no kill."""
    words: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.5)
            words.append("cleaned up")

    async def main() -> None:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        assert not task.done()

    async def scenario(loop: SimulationLoop) -> float:
        process = loop.spawn("p", main)
        await process.ended()
        assert process.state is ProcessState.EXITED
        return loop.time()

    with SimulationLoop(1) as loop:
        assert loop.run(scenario(loop)) == 1.5
    assert words == ["cleaned up"]


def test_an_exception_ends_a_process_and_is_kept() -> None:
    """The scenario is told through on_end, and decides what it means."""
    seen: list[tuple[str, str]] = []

    async def fail() -> None:
        raise ValueError("no")

    async def scenario(loop: SimulationLoop) -> None:
        loop.on_end.append(lambda process: seen.append((process.name, repr(process.exception))))
        await loop.spawn("p", fail).ended()

    with SimulationLoop(1) as loop:
        loop.run(scenario(loop))
    assert seen == [("p", "ValueError('no')")]


def test_a_message_runs_in_its_process_or_is_lost_with_it() -> None:
    """deliver() is how a NOTIFY, a signal or a packet arrives."""
    heard: list[str] = []

    async def listen() -> None:
        await asyncio.sleep(10)

    async def scenario(loop: SimulationLoop) -> None:
        living, dying = loop.spawn("living", listen), loop.spawn("dying", listen)
        for process in (living, dying):
            loop.deliver(process, lambda: heard.append(current_process().name), delay=2.0)
        loop.kill(dying)
        await living.ended()

    with SimulationLoop(1) as loop:
        loop.run(scenario(loop))
    assert heard == ["living"]


def test_the_same_name_may_be_used_again_only_after_death() -> None:
    """Two living processes never share a name; the dead one's callbacks do not come back with it."""

    async def wait(heard: list[str], word: str) -> None:
        await asyncio.sleep(1)
        heard.append(word)

    async def scenario(loop: SimulationLoop) -> list[str]:
        heard: list[str] = []
        first = loop.spawn("w", wait, heard, "first")
        with pytest.raises(ValueError, match="'w' is alive"):
            loop.spawn("w", wait, heard, "twin")
        loop.kill(first)
        await loop.spawn("w", wait, heard, "second").ended()
        return heard

    with SimulationLoop(1) as loop:
        assert loop.run(scenario(loop)) == ["second"]


def test_a_scenario_that_can_never_go_on_is_reported_with_the_place() -> None:
    """Deadlock: who waits, and where."""

    async def wait_for_nobody() -> None:
        await asyncio.Event().wait()

    async def scenario(loop: SimulationLoop) -> None:
        await loop.spawn("worker", wait_for_nobody).ended()

    with SimulationLoop(1) as loop, pytest.raises(Deadlock, match=r"worker/main waits in .*locks\.py:\d+"):
        loop.run(scenario(loop))


@pytest.mark.parametrize("pause", [0.0, 0.001])
def test_a_scenario_that_runs_for_ever_is_reported(pause: float) -> None:
    """Livelock: at one instant, or in all."""

    async def spin() -> None:
        while True:
            await asyncio.sleep(pause)

    with SimulationLoop(1, steps_max=30_000) as loop, pytest.raises(Livelock, match="scenario"):
        loop.run(spin())


def test_asyncio_itself_works_on_the_loop() -> None:
    """Timeouts, wait_for, shield, locks, queues, conditions, barriers, gather and as_completed."""

    async def slow(value: int) -> int:
        await asyncio.sleep(value)
        return value

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await slow(2)
        async with asyncio.timeout(None) as limit:
            limit.reschedule(asyncio.get_running_loop().time() + 5)
            assert await slow(1) == 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow(9), 0.5)
        assert await asyncio.wait_for(asyncio.shield(slow(1)), 2) == 1
        assert list(await asyncio.gather(slow(3), slow(1), slow(2))) == [3, 1, 2]
        in_order = [await done for done in asyncio.as_completed([slow(3), slow(1), slow(2)])]
        assert in_order == [1, 2, 3]
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(slow(100))
                group.create_task(asyncio.wait_for(slow(5), 1))
        lock, queue, condition = asyncio.Lock(), asyncio.Queue[int](1), asyncio.Condition()

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
            async with lock, condition:
                condition.notify_all()

        async with condition, asyncio.TaskGroup() as group:
            group.create_task(produce())
            assert [await queue.get() for _ in range(3)] == [0, 1, 2]
            await condition.wait()

    with SimulationLoop(1) as loop:
        loop.run(scenario())
        assert loop.errors == []


def test_threads_are_refused_with_the_reason() -> None:
    """A thread would end determinism."""

    async def scenario() -> None:
        with pytest.raises(NotImplementedError, match="no threads in a simulation"):
            await asyncio.to_thread(print)

    with SimulationLoop(1) as loop:
        loop.run(scenario())


def test_what_asyncio_reports_is_collected() -> None:
    """A callback that raises goes to the loop's exception handler, which remembers it."""

    async def scenario(loop: SimulationLoop) -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with SimulationLoop(1) as loop:
        loop.run(scenario(loop))
        assert [type(error["exception"]) for error in loop.errors] == [ZeroDivisionError]


def test_each_process_has_a_clock_that_may_be_wrong() -> None:
    """Virtual time since a start, in milliseconds, with a skew that can jump."""

    async def scenario(loop: SimulationLoop) -> list[int]:
        clock = SimulatedClock(loop, Instant(1_000_000), skew_ms=-250)
        seen = [clock.now()]
        await asyncio.sleep(1.5)
        seen.append(clock.now())
        clock.skew_ms = 60_000
        return [*seen, clock.now()]

    with SimulationLoop(1) as loop:
        assert loop.run(scenario(loop)) == [999_750, 1_001_250, 1_061_500]


def test_a_plan_reads_as_it_is_written() -> None:
    """One line for a failure report, and back."""
    plan = (Fault("kill", 81), Fault("pause", 15, 3.0), Fault("crash/claim.before_commit", 2))

    assert plan_text(plan) == "kill@81,pause@15=3.0,crash/claim.before_commit@2"
    assert parse_plan(plan_text(plan)) == plan
    assert parse_plan("") == ()
    for text in ("kill", "@3", "kill@x", "kill@1=y"):
        with pytest.raises(ValueError):
            parse_plan(text)


def test_faults_of_a_kind_follow_its_rate_or_its_familys() -> None:
    """A kind of its own rate first, then the family's; without either it never strikes; calm ends all."""
    faults = Faults(1, rates={"crash": 1.0, "crash/rare": 0.0})

    assert faults.strikes("crash/claim") == Fault("crash/claim", 1)
    assert faults.strikes("crash/rare") is None
    assert faults.strikes("kill") is None
    faults.calm()
    assert faults.strikes("crash/claim") is None
    assert faults.opportunities == {"crash/claim": 2, "crash/rare": 1, "kill": 1}


def test_the_minimiser_finds_the_two_faults_that_matter() -> None:
    """Of many faults those stay without which the run does not fail in the same way, with small numbers."""
    plan = (*(Fault("kill", at) for at in range(1, 60)), Fault("pause", 7, 45.0))

    def run(candidate: tuple[Fault, ...]) -> str | None:
        kills = {fault.at for fault in candidate if fault.kind == "kill"}
        pauses = [fault.value for fault in candidate if fault.kind == "pause"]
        if 13 in kills and pauses and pauses[0] >= 3.0:
            return "LOST"
        return "OTHER" if 40 in kills else None

    found = minimise(run, plan, "LOST", values=(0.5, 3.0, 12.0, 45.0))

    assert found.plan == (Fault("kill", 13), Fault("pause", 7, 3.0))
    assert found.runs < 60
    with pytest.raises(ValueError, match="deterministic"):
        minimise(run, plan[:10], "LOST")


def test_the_minimiser_says_when_no_fault_is_needed() -> None:
    """A pure race fails under the empty plan too."""
    found = minimise(lambda _: "RACE", (Fault("kill", 1), Fault("kill", 2)), "RACE")

    assert found.plan == ()
    assert "no fault needed" in str(found)
