"""Failovers under load: the primary dies or hangs, its standby is promoted, and the fleet goes on by itself.

    python -m tests.kills.failover --failovers 10

Two servers, two workers and clients on a primary with a synchronous standby; the address names both. Every second time
the primary is not killed but stopped, so that its connections say nothing at all; soon after the failover, while
connections to it may still be begun, it wakes up for a moment, as a primary that does not know. Then it is built anew
as the standby of the other. Recovery is measured from
the moment when the promoted server accepts writes, for each server to its first acknowledged call and for each worker
to its first job.
"""

import contextlib
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import click
import psutil
import psycopg

from tests.kills.fleet import PAUSE_S, Fleet, Verdict
from tests.postgres import PostgresServer
from tests.standby import REPLICATED, Standby, url_of_both, wait_for_copies

DATABASE: Final = "fleet"
AWAY_S: Final = (0.0, 6.0)
"""How long it takes until the standby is promoted: at times longer than a lease."""
WAKES_S: Final = (0.0, 1.0)
"""How long after that a primary that hung wakes up."""
AWAKE_S: Final = 2.0
PATIENCE_S: Final = 60.0
"""After which a server or worker that is not back counts as missing."""
RECOVERY_MEDIAN_S: Final = 3.0
RECOVERY_MAX_S: Final = 30.0
"""A machine that is busy with other things as well may hold up one process for longer."""


@dataclass(slots=True)
class Outcome:
    """One whole run."""

    failovers: int = 0
    hangs: int = 0
    recoveries: list[tuple[float, str]] = field(default_factory=list)
    """Seconds for each server and worker after each failover, and which it was."""
    missing: list[str] = field(default_factory=list)
    """Who was not back before the next failover."""
    longest_pause_s: float = 0.0
    """Between two acknowledgements, the time without a primary included."""
    verdict: Verdict = field(default_factory=Verdict)
    came_to_rest: bool = False
    ended_badly: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Nothing lost, nothing doubled, no action taken for lost, and no process has ended."""
        lost = self.verdict.wrong or self.verdict.lost_actions
        return self.came_to_rest and not lost and not self.missing and not self.ended_badly

    @property
    def holds(self) -> bool:
        """Also: everyone was back in time."""
        times = [each for each, _ in self.recoveries]
        return self.is_whole and statistics.median(times) <= RECOVERY_MEDIAN_S and max(times) <= RECOVERY_MAX_S


class Pair:
    """Two servers, of which one is the primary."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self.primary: PostgresServer = stack.enter_context(PostgresServer(fsync=True, settings=REPLICATED))
        self.primary.databases.create(name=DATABASE)
        self.standby = stack.enter_context(Standby(self.primary, fsync=True))
        wait_for_copies(self.primary)
        self.url = url_of_both(self.primary, self.standby, DATABASE)

    def fail(self, *, hangs: bool, away_s: float) -> float:
        """Let the primary fail, and promote the other after a while; returns when that accepts writes."""
        if hangs:
            first = psutil.Process(self.primary.pid)
            first.suspend()  # it begins no others meanwhile
            for process in first.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
        else:
            self.primary.kill()
        time.sleep(away_s)
        self.standby.promote()
        return time.time()

    def wake(self) -> None:
        """Let the old primary, which hung, be what it was for a moment."""
        first = psutil.Process(self.primary.pid)
        for process in (*first.children(recursive=True), first):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        time.sleep(AWAKE_S)
        self.primary.kill()

    def mend(self) -> None:
        """Let the old primary, which is dead, come back as a standby at the same place."""
        port = self.primary.port
        self.primary.close()
        self.primary, standby = self.standby, Standby(self.standby, fsync=True)
        standby.port = port
        self.standby = self._stack.enter_context(standby)
        wait_for_copies(self.primary)


def run(folder: Path, *, failovers: int, chance: random.Random, pause_s: float = PAUSE_S) -> Outcome:
    """So many failovers, one after the other; clients pause for `pause_s` between calls."""
    began, outcome = time.monotonic(), Outcome()
    with contextlib.ExitStack() as stack:
        pair = Pair(stack)
        fleet = Fleet(pair.url, folder, pause_s=pause_s)
        try:
            fleet.begin()
            for number in range(failovers):
                hangs = number % 2 == 1
                time.sleep(chance.uniform(0.5, 2.0))
                back_at = pair.fail(hangs=hangs, away_s=chance.uniform(*AWAY_S))
                outcome.failovers += 1
                outcome.hangs += hangs
                if hangs:
                    time.sleep(chance.uniform(*WAKES_S))
                    pair.wake()
                _measure(fleet, outcome, back_at, f"failover {number}, of a primary that {'hung' if hangs else 'died'}")
                pair.mend()
            outcome.came_to_rest = fleet.rest()
            outcome.verdict = fleet.judge()
        finally:
            outcome.ended_badly = fleet.stop()
        times = sorted(each.at for each in fleet.acknowledged)
        outcome.longest_pause_s = max(after - before for before, after in pairwise(times))
    outcome.ended_badly += [f"{role} was not there any more" for role in set(fleet.pids.values()) - set(fleet.roles)]
    outcome.seconds = time.monotonic() - began
    return outcome


def _measure(fleet: Fleet, outcome: Outcome, back_at: float, failover: str) -> None:
    times: dict[str, float] = {}
    while len(times) < len(fleet.roles) and time.time() < back_at + PATIENCE_S:
        time.sleep(0.2)
        with contextlib.suppress(psycopg.OperationalError):
            times = fleet.worker_times(back_at) | fleet.server_times(back_at)
    outcome.recoveries += [(at - back_at, f"{role} after {failover}") for role, at in times.items()]
    outcome.missing += [f"{role} after {failover}" for role in fleet.roles if role not in times]
    outcome.missing += [f"{role} has ended" for role, process in fleet.processes.items() if process.poll() is not None]


def lines(outcome: Outcome) -> Iterator[str]:
    """The figures of a run."""
    verdict, times, (longest, slowest) = (
        outcome.verdict,
        [each for each, _ in outcome.recoveries],
        max(outcome.recoveries),
    )
    yield (
        f"postgres: {outcome.failovers} failovers, {outcome.hangs} of a primary that hung, "
        f"{verdict.acknowledged:,} acknowledged calls, {verdict.effects:,} effects, {verdict.actions:,} actions, "
        f"{verdict.ticks:,} seconds of a schedule in {outcome.seconds:.0f} s"
    )
    yield (
        f"recovery of a server or worker after the promotion: median {statistics.median(times):.2f} s, "
        f"max {longest:.2f} s ({slowest}); longest pause of acknowledgements {outcome.longest_pause_s:.2f} s"
    )
    yield f"{len(verdict.wrong)} wrong, {verdict.lost_actions} actions taken for lost, {len(outcome.missing)} missing"
    yield from (f"  {each}" for each in (*verdict.wrong[:20], *outcome.missing, *outcome.ended_badly))
    if not outcome.came_to_rest:
        yield "  not everything had ended in the end"


@click.command()
@click.option("--failovers", default=10, show_default=True, help="How many.")
def main(failovers: int) -> None:
    """Fail over a real PostgreSQL; see the module's text."""
    folder = Path(tempfile.mkdtemp(prefix="evertick-failover-"))
    outcome = run(folder, failovers=failovers, chance=random.Random())
    for line in lines(outcome):
        click.echo(line)
    if outcome.holds:
        shutil.rmtree(folder)
    else:
        click.echo(f"kept for a look: {folder}")
    sys.exit(0 if outcome.holds else 1)


if __name__ == "__main__":
    main()
