"""Turns of scripts in one process: by what tenants computed lately, within limits, and with a niceness."""

import asyncio

import pytest

from evertick.app.scripts import running as module
from evertick.app.scripts.running import ALL_BUSY_MS, HALF_LIFE_S, LEAST_NICE, MOST_NICE, Turns
from evertick.base.ids import TenantId

CALM, GREEDY, NEW = TenantId("calm"), TenantId("greedy"), TenantId("new")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_the_tenant_that_computed_least_lately_is_next(clock: Clock) -> None:
    turns = Turns(1)
    for tenant, cpu_ms in ((GREEDY, 900), (CALM, 100)):
        turns.ask(tenant, 9).result(0)
        turns.end(tenant, cpu_ms)

    busy = turns.ask(NEW, 9)
    waiting = [turns.ask(tenant, 9) for tenant in (GREEDY, GREEDY, CALM)]
    assert busy.done()

    turns.end(NEW, 200)
    assert [each.done() for each in waiting] == [False, False, True]
    turns.end(CALM, 900)  # 1,000 in all now
    assert [each.done() for each in waiting] == [True, False, True]


def test_a_tenant_has_no_more_turns_than_it_may(clock: Clock) -> None:
    turns = Turns(4)
    asked = [turns.ask(GREEDY, 2) for _ in range(3)]
    other = turns.ask(CALM, 2)

    assert [each.done() for each in [*asked, other]] == [True, True, False, True]
    turns.end(GREEDY, 1)
    assert asked[2].done()


def test_a_wait_that_is_canceled_has_no_turn() -> None:
    turns = Turns(1)
    first = turns.ask(CALM, 9)

    async def give_up() -> None:
        waiting = asyncio.create_task(turns.wait(CALM, 9))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(give_up())
    last = turns.ask(CALM, 9)
    assert (first.done(), last.done()) == (True, False)
    turns.end(CALM, 0)
    assert last.done()


def test_niceness_grows_with_what_a_tenant_uses_and_falls_with_time(clock: Clock) -> None:
    turns = Turns(1)
    turns.ask(GREEDY, 1).result(0)
    turns.end(GREEDY, ALL_BUSY_MS)

    assert (turns.niceness(CALM), turns.niceness(GREEDY)) == (LEAST_NICE, MOST_NICE)
    clock.now += HALF_LIFE_S
    assert turns.niceness(GREEDY) == (LEAST_NICE + MOST_NICE) // 2
    clock.now += 20 * HALF_LIFE_S
    assert turns.niceness(GREEDY) == LEAST_NICE
