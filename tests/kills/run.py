"""Kill real processes, and prove that nothing was lost and nothing doubled.

    python -m tests.kills.run --database sqlite --kills 200 --jobs 5000
    python -m tests.kills.run --database postgres --kills 200 --jobs 5000

On SQLite one worker process runs and clients schedule into the file; on PostgreSQL several workers run, some are
stopped for longer than their lease and continued (zombies), the server itself is stopped and started again, and now
and then all its connections are cut. Every process may be killed by SIGKILL, at any moment. When there have been
enough kills and jobs, the fire ends, what is left is worked off, and `tests.kills.ledger` compares. On failure the
folder with the database and all traces is kept.
"""

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import click
import psycopg

from evertick.app.limits.pools import PoolOperations
from evertick.base.clock import SystemClock
from evertick.store.open import open_store
from tests.kills.ledger import Verdict, judge
from tests.kills.program import CUSTOMER_MAX, LEASE_MS, OUTSIDE, OUTSIDE_MAX, run_client, run_worker
from tests.postgres import PostgresServer

REST_SECONDS: Final = 90.0
SECONDS_A_KILL: Final = 2.4
"""More than a kill ever takes: with 200 of them a run that comes to nothing ends after 480 s."""
CUT: Final = """
select pg_terminate_backend(pid) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid()"""
LOOK_SECONDS: Final = 0.05
WRITTEN: Final = (
    "select (select count(*) from jobs where name <> 'tell') + (select count(*) from history where name <> 'tell')"
)
"""The jobs that the ledger counts."""
OUTSIDE_NOW: Final = "select count(*) from jobs where state = 'in_progress' and name = 'call_out'"
CUSTOMER_NOW: Final = (
    "select coalesce(max(running), 0) from (select count(*) as running from jobs where state = 'in_progress' "
    "and name = 'call_out' group by limit_key) as each"
)
HELD_NOW: Final = "select count(*) from jobs where state = 'pending' and stage = 'held'"
ENDED: Final = "select count(*) from history"
UNFINISHED: Final = "select count(*) from jobs where state in ('pending', 'in_progress')"


@dataclass(slots=True)
class Tally:
    """What was done to the processes."""

    kills: int = 0
    client_kills: int = 0
    zombies: int = 0
    restarts: int = 0
    cut: int = 0
    crashes: int = 0
    """Processes that ended by an error of their own."""
    refused: int = 0
    """Workers that ended at their start because the database did not answer."""
    together: int = 0
    """How many actions of a pool with a limit were seen to run at a time."""
    of_a_customer: int = 0
    """How many of them were seen to run at a time for one customer."""
    held: int = 0
    """How many were seen to wait for their customer's turn."""
    recoveries: list[float] = field(default_factory=list)
    """Seconds from a worker's death until nothing was left in its name."""


class Site:
    """One database, its processes, and the fire."""

    def __init__(self, url: str, folder: Path, *, workers: int, clients: int, server: PostgresServer | None) -> None:
        self.url = url
        self.folder = folder
        self.tally = Tally()
        self._server = server
        # A server process that has imported everything forks children in some milliseconds.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.kills.program", "evertick.store.postgres.store"])
        self._processes: dict[str, BaseProcess] = {}
        self._roles = [f"worker{n}" for n in range(workers)] + [f"client{n}" for n in range(clients)]
        self._boots = 0
        self._dead: dict[int, float] = {}
        self._stopped: dict[int, float] = {}
        self._chance = random.Random()

    def start(self, role: str) -> None:
        """Start the process of a role."""
        self._boots += 1
        if role.startswith("worker"):
            process: BaseProcess = self._context.Process(target=run_worker, args=(self.url, self.folder), daemon=True)
        else:
            process = self._context.Process(
                target=run_client, args=(self.url, self.folder, f"c{self._boots}"), daemon=True
            )
        process.start()
        self._processes[role] = process

    def burn(self, kills: int, jobs: int) -> None:
        """Kill until there were enough kills and jobs. Raises TimeoutError after SECONDS_A_KILL for each."""
        for role in self._roles:
            self.start(role)
        deadline = time.monotonic() + max(200, kills) * SECONDS_A_KILL
        next_kill = time.monotonic() + 1.0
        while self.tally.kills < kills or self._count(WRITTEN) < jobs:
            self._tend()
            if time.monotonic() >= next_kill:
                self._strike()
                next_kill = time.monotonic() + self._chance.uniform(0.05, 0.5)
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {self.tally.kills} kills in {max(200, kills) * SECONDS_A_KILL:.0f} s")
            time.sleep(LOOK_SECONDS)

    def rest(self) -> bool:
        """No more fire: clients go, workers work off what is left. Whether they did: REST_SECONDS without an end of a
        job mean that they did not.
        """
        for role, process in self._processes.items():
            if role.startswith("client"):
                self._end(process)
        self._roles = [role for role in self._roles if role.startswith("worker")]
        ended, deadline = 0, time.monotonic() + REST_SECONDS
        while time.monotonic() < deadline:
            self._tend(all_awake=True)
            if self._count(UNFINISHED) == 0:
                return True
            if (count := self._count(ENDED)) > ended:
                ended, deadline = count, time.monotonic() + REST_SECONDS
            time.sleep(LOOK_SECONDS)
        return False

    def stop(self) -> None:
        """End every process."""
        for process in self._processes.values():
            self._end(process)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Read from the database, beside everybody else."""
        if self._server is not None:
            with psycopg.connect(self.url) as connection:
                return connection.execute(text.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=10)) as file:
            return file.execute(text).fetchall()

    # -- helpers

    def _count(self, text: str) -> int:
        return int(self.query(text)[0][0])

    def _strike(self) -> None:
        """One blow of the nemesis."""
        draw = self._chance.random()
        if self._server is not None and draw < 0.02:
            self._server.restart("immediate")
            self.tally.restarts += 1
            return
        if self._server is not None and draw < 0.04:
            with contextlib.suppress(psycopg.OperationalError):  # it may be cutting those that it has restarted
                self.tally.cut += len(self.query(CUT))
            return
        kind = "worker" if self._chance.random() < 0.8 else "client"
        role = self._chance.choice([role for role in self._roles if role.startswith(kind)])
        process = self._processes[role]
        if process.pid is None or not process.is_alive() or process.pid in self._stopped:
            return
        if self._server is not None and draw < 0.15 and role.startswith("worker"):
            os.kill(process.pid, signal.SIGSTOP)
            self._stopped[process.pid] = time.monotonic() + self._chance.uniform(1.2, 3.0) * LEASE_MS / 1000
            self.tally.zombies += 1
            return
        os.kill(process.pid, signal.SIGKILL)
        self.tally.kills += 1
        if role.startswith("worker"):
            self._dead[process.pid] = time.monotonic()
        else:
            self.tally.client_kills += 1
        process.join()

    def _tend(self, *, all_awake: bool = False) -> None:
        """Wake whom it is time to wake, start what is dead again, and see who has been buried."""
        now = time.monotonic()
        self.tally.together = max(self.tally.together, self._count(OUTSIDE_NOW))
        self.tally.of_a_customer = max(self.tally.of_a_customer, self._count(CUSTOMER_NOW))
        self.tally.held = max(self.tally.held, self._count(HELD_NOW))
        for pid, until in list(self._stopped.items()):
            if now >= until or all_awake:
                del self._stopped[pid]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        for role in self._roles:
            if not self._processes[role].is_alive():
                self.tally.refused += self._processes[role].exitcode == 0
                self.tally.crashes += self._processes[role].exitcode not in (0, -signal.SIGKILL)
                self.start(role)
        if self._dead:
            living = {pid for (pid,) in self.query("select pid from workers")}
            for pid, died_at in list(self._dead.items()):
                if pid not in living:
                    del self._dead[pid]
                    self.tally.recoveries.append(now - died_at)

    def _end(self, process: BaseProcess) -> None:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()


@dataclass(slots=True)
class Outcome:
    """One whole run."""

    tally: Tally
    verdict: Verdict
    came_to_rest: bool
    seconds: float

    @property
    def holds(self) -> bool:
        """Nothing lost, nothing doubled, no limit exceeded, and no process ended but by a kill."""
        limited = self.tally.together <= OUTSIDE_MAX and self.tally.of_a_customer <= CUSTOMER_MAX
        whole = not self.verdict.lost and not self.verdict.doubled
        return self.came_to_rest and not self.tally.crashes and whole and limited


def run(database: str, kills: int, jobs: int, folder: Path, server: PostgresServer | None = None) -> Outcome:
    """Burn one database: `server` must run if `database` is "postgres"."""
    began = time.monotonic()
    if server is not None:
        url, workers = server.databases.create(), 3
    else:
        url, workers = f"sqlite:///{folder}/evertick.db", 1
    store = open_store(url)
    store.migrate()
    store.write(PoolOperations(SystemClock().now).set(OUTSIDE, running=OUTSIDE_MAX, per_key=CUSTOMER_MAX))
    store.close()
    site = Site(url, folder, workers=workers, clients=2, server=server)
    try:
        site.burn(kills, jobs)
        came_to_rest = site.rest()
    finally:
        site.stop()
    verdict = judge(site.query, folder)
    return Outcome(site.tally, verdict, came_to_rest, time.monotonic() - began)


def show(database: str, outcome: Outcome) -> None:
    """The figures of a run."""
    tally, verdict = outcome.tally, outcome.verdict
    click.echo(
        f"{database}: {tally.kills} kills ({tally.client_kills} of clients), {tally.zombies} zombies, "
        f"{tally.restarts} restarts of the server, {tally.cut} cut connections, "
        f"{tally.refused} refused starts, "
        f"{verdict.jobs:,} jobs in {outcome.seconds:.0f} s"
    )
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(verdict.states.items()))
    click.echo(
        f"{states}; {verdict.reruns:,} jobs took more than one attempt, {verdict.lost_actions} actions lost their "
        f"worker, {verdict.quarantined} jobs in quarantine; {verdict.told:,} ends were told"
    )
    click.echo(f"at most {tally.together} actions of the pool {OUTSIDE} ran at a time; its limit is {OUTSIDE_MAX}")
    click.echo(
        f"at most {tally.of_a_customer} of them for one customer; the limit is {CUSTOMER_MAX}, and up to "
        f"{tally.held} waited for it"
    )
    times = sorted(tally.recoveries)
    if times:
        p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
        click.echo(
            f"recovery after a worker's death: median {statistics.median(times):.2f} s, p99 {p99:.2f} s, "
            f"max {times[-1]:.2f} s (lease {LEASE_MS / 1000:g} s)"
        )
    click.echo(f"{len(verdict.lost)} lost, {len(verdict.doubled)} doubled, {tally.crashes} ended by an error")
    for line in (*verdict.lost[:10], *verdict.doubled[:10]):
        click.echo(f"  {line}")
    if not outcome.came_to_rest:
        click.echo(f"  no job ended for {REST_SECONDS:.0f} s after the last kill, and some were left")


@click.command()
@click.option("--database", type=click.Choice(("sqlite", "postgres")), required=True)
@click.option("--kills", default=200, show_default=True, help="How many SIGKILLs at least.")
@click.option("--jobs", default=5_000, show_default=True, help="How many jobs at least.")
def main(database: str, kills: int, jobs: int) -> None:
    """Kill real processes; see the module's text."""
    folder = Path(tempfile.mkdtemp(prefix="evertick-kills-"))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(PostgresServer(fsync=True)) if database == "postgres" else None
        outcome = run(database, kills, jobs, folder, server)
        show(database, outcome)
    if outcome.holds:
        shutil.rmtree(folder)
    else:
        click.echo(f"kept for a look: {folder}")
    sys.exit(0 if outcome.holds else 1)


if __name__ == "__main__":
    main()
