"""Kill servers, workers and connections under load, and prove that each acknowledged call happened exactly once.

    python -m tests.kills.servers --kills 60

Clients call mutations and schedule jobs over HTTP, with an `Idempotency-Key`, on two servers; two workers run the jobs.
At any moment a server or a worker is killed by SIGKILL, all connections of the database are cut, or the database is
stopped and started again. What is dead is started again at once.
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
import psycopg

from tests.kills.fleet import Fleet, Verdict
from tests.kills.run import CUT
from tests.postgres import PostgresServer

SECONDS_A_KILL: Final = 10.0
"""More than a kill ever takes."""
PAUSE_S: Final = (0.3, 2.0)
"""Between two blows: a process needs about a second to start."""


@dataclass(slots=True)
class Outcome:
    """One whole run."""

    kills: dict[str, int] = field(default_factory=lambda: {"server": 0, "worker": 0})
    restarts: int = 0
    cut: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    came_to_rest: bool = False
    ended_badly: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    """From when a call was sent first until it was acknowledged."""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Each acknowledged call exactly once, and no process ended but by a kill."""
        return self.came_to_rest and not self.verdict.wrong and not self.ended_badly


def run(server: PostgresServer, folder: Path, *, kills: int, chance: random.Random) -> Outcome:
    """Burn one database until there were so many kills."""
    began, outcome = time.monotonic(), Outcome()
    fleet = Fleet(server.databases.create(), folder)
    try:
        fleet.begin()
        deadline = time.monotonic() + kills * SECONDS_A_KILL
        while sum(outcome.kills.values()) < kills and time.monotonic() < deadline:
            _strike(fleet, server, outcome, chance)
            time.sleep(chance.uniform(*PAUSE_S))
            _tend(fleet, outcome)
        _tend(fleet, outcome)
        outcome.came_to_rest = fleet.rest()
        outcome.verdict = fleet.judge()
    finally:
        outcome.ended_badly += fleet.stop()
    outcome.slowest_s = max(each.took_s for each in fleet.acknowledged)
    outcome.seconds = time.monotonic() - began
    return outcome


def _strike(fleet: Fleet, server: PostgresServer, outcome: Outcome, chance: random.Random) -> None:
    draw = chance.random()
    if draw < 0.04:
        server.restart("immediate")
        outcome.restarts += 1
    elif draw < 0.12:
        with contextlib.suppress(psycopg.OperationalError):
            outcome.cut += len(fleet.query(CUT))
    else:
        role = chance.choice(fleet.roles)
        process = fleet.processes[role]
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            outcome.kills[role[:-1]] += 1


def _tend(fleet: Fleet, outcome: Outcome) -> None:
    """Start what is dead again. A worker or server that starts while the database is away ends, with exit code 7."""
    for role, process in fleet.processes.items():
        code = process.poll()
        if code is not None:
            if code not in (7, -signal.SIGKILL):
                outcome.ended_badly.append(f"{role} ended with {code}")
            fleet.start(role)


def lines(outcome: Outcome) -> Iterator[str]:
    """The figures of a run."""
    verdict, kills = outcome.verdict, outcome.kills
    yield (
        f"postgres: {sum(kills.values())} kills ({kills['server']} of servers), {outcome.restarts} restarts of the "
        f"database, {outcome.cut} cut connections, {verdict.acknowledged:,} acknowledged calls, {verdict.effects:,} "
        f"effects, {verdict.actions:,} actions, {verdict.ticks:,} seconds of a schedule in {outcome.seconds:.0f} s"
    )
    yield f"{verdict.lost_actions} actions lost their worker; the slowest call took {outcome.slowest_s:.2f} s"
    yield f"{len(verdict.wrong)} wrong, {len(outcome.ended_badly)} ended by an error"
    yield from (f"  {each}" for each in (*verdict.wrong[:20], *outcome.ended_badly))
    if not outcome.came_to_rest:
        yield "  not everything had ended in the end"


@click.command()
@click.option("--kills", default=60, show_default=True, help="How many SIGKILLs.")
def main(kills: int) -> None:
    """Kill real servers and workers; see the module's text."""
    folder = Path(tempfile.mkdtemp(prefix="evertick-servers-"))
    with PostgresServer(fsync=True) as server:
        outcome = run(server, folder, kills=kills, chance=random.Random())
    for line in lines(outcome):
        click.echo(line)
    if outcome.holds:
        shutil.rmtree(folder)
    else:
        click.echo(f"kept for a look: {folder}")
    sys.exit(0 if outcome.holds else 1)


if __name__ == "__main__":
    main()
