"""Kill workers while workflows run, and prove that every run ends and every step happened as often as it may.

    python -m tests.kills.workflows --database sqlite --kills 200 --runs 1000
    python -m tests.kills.workflows --database postgres --kills 200 --runs 1000

Workflows of ten steps are started all the time, and workers killed by SIGKILL; on PostgreSQL, where three of them run,
some are stopped for longer than their lease and continued. Before each kill some runs are paused, and go on after it.
In the end every run must have succeeded, each mutation step have left one document, and no action without a retry
policy been called twice.
"""

import contextlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from evertick.base.errors import Conflict, JobNotFound, Unavailable
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from tests.kills.fire import Fire, Struck
from tests.kills.workflow_program import EFFECTS, ONCE, app, run_worker, ten
from tests.places import with_plain_names
from tests.postgres import PostgresServer

LOOK_SECONDS: Final = 0.02
TIME_MAX_SECONDS: Final = 480.0
REST_SECONDS: Final = 120.0
STARTED_AT_ONCE: Final = 5
PAUSED_AT_ONCE: Final = 10
IDLE_SECONDS: Final = 5.0
MADE: Final = "select count(*) from workflow_journal"
OPEN: Final = "select count(*) from jobs"


@dataclass(slots=True)
class Outcome(Struck):
    """One whole run."""

    runs: int = 0
    paused: int = 0
    seconds: float = 0.0
    came_to_rest: bool = False
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Every run has ended, every step happened as often as it may, and no process ended but by a kill."""
        return self.came_to_rest and not self.crashes and not self.wrong


def run(url: str, folder: Path, *, kills: int, runs: int) -> Outcome:
    """Burn one database until there were so many kills and runs."""
    began, outcome = time.monotonic(), Outcome()
    app._database_url = with_plain_names(url)
    store = app.environment.store
    several = not store.single_engine
    fire = Fire(outcome, run_worker, url, folder, workers=3 if several else 1, freezes=several)
    fire.start()
    try:
        _burn(fire, store, outcome, kills, runs)
        deadline = time.monotonic() + REST_SECONDS
        while time.monotonic() < deadline and not outcome.came_to_rest:
            fire.tend(all_awake=True)
            time.sleep(LOOK_SECONDS * 10)
            outcome.came_to_rest = _read(store, "select count(*) from jobs")[0][0] == 0
    finally:
        fire.stop()
    outcome.wrong += _judge(store, folder, outcome.runs)
    app.close()
    outcome.seconds = time.monotonic() - began
    return outcome


def _burn(fire: Fire, store: Store, outcome: Outcome, kills: int, runs: int) -> None:
    deadline = time.monotonic() + TIME_MAX_SECONDS
    next_kill, made_before = time.monotonic() + 1.0, 0
    while outcome.kills < kills or outcome.runs < runs:
        for _ in range(STARTED_AT_ONCE):
            if outcome.runs < runs:
                with contextlib.suppress(Conflict, Unavailable):  # not started; the number is taken by the next one
                    app.scheduler.using(key=f"run {outcome.runs}").run_after(0, ten, outcome.runs)
                    outcome.runs += 1
        fire.tend()
        # Not before a step was made since the last kill: runs whose workers die again and again end in quarantine.
        made = _read(store, MADE)[0][0] if time.monotonic() >= next_kill else made_before
        all_ended = outcome.runs >= runs and time.monotonic() >= next_kill and not _read(store, OPEN)[0][0]
        if made > made_before or all_ended or time.monotonic() >= next_kill + IDLE_SECONDS:
            made_before = made
            paused = _pause(outcome.runs)
            fire.strike()
            _resume(paused)
            outcome.paused += len(paused)
            next_kill = time.monotonic() + random.uniform(0.2, 0.6)
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {outcome.kills} kills in {TIME_MAX_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)


def _pause(runs: int) -> list[str]:
    """Pause the newest runs, if they have not ended; returns their keys."""
    paused = []
    for number in range(max(0, runs - PAUSED_AT_ONCE), runs):
        with contextlib.suppress(Conflict, Unavailable, JobNotFound):
            if app.workflows.pause(f"run {number}"):
                paused.append(f"run {number}")
    return paused


def _resume(paused: list[str]) -> None:
    for key in paused:
        while True:
            with contextlib.suppress(Conflict, Unavailable):
                app.workflows.resume(key)
                break


def _judge(store: Store, folder: Path, runs: int) -> Iterator[str]:
    """What must not be."""
    ended = Counter(str(state) for (state,) in _read(store, "select state from history where name = 'ten'"))
    if ended != {"success": runs}:
        yield f"{runs} runs were started; they ended {dict(ended)}"
        yield from (str(error) for (error,) in _read(store, "select error from history where state = 'failed' limit 5"))
    effects = Counter(_tag(body) for (body,) in _read(store, "select body from documents"))
    for number in range(runs):
        for name in EFFECTS:
            if (count := effects[f"{number}.{name}"]) != 1:
                yield f"step {name} of run {number} has {count} effects"
    calls = folder / "calls"
    called = Counter(calls.read_text().split() if calls.exists() else ())
    yield from (f"{tag} was called {count} times" for tag, count in called.items() if tag.endswith(ONCE) and count > 1)


def _tag(body: Any) -> str:
    return str((json.loads(body) if isinstance(body, str) else body)["tag"])


def _read(store: Store, query: str) -> list[tuple[Any, ...]]:
    def work(transaction: Transaction) -> list[tuple[Any, ...]]:
        return list(transaction.connection.execute(query).fetchall())

    return store.view(work)


@click.command()
@click.option("--database", type=click.Choice(("sqlite", "postgres")), required=True)
@click.option("--kills", default=200, show_default=True, help="How many SIGKILLs at least.")
@click.option("--runs", default=1_000, show_default=True, help="How many workflows.")
def main(database: str, kills: int, runs: int) -> None:
    """Kill real processes; see the module's text."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evertick-kills-")))
        url = f"sqlite:///{folder}/evertick.db"
        if database == "postgres":
            url = stack.enter_context(PostgresServer(fsync=True)).databases.create()
        outcome = run(url, folder, kills=kills, runs=runs)
    click.echo(
        f"{database}: {outcome.kills} kills, {outcome.zombies} zombies, {outcome.paused} pauses, "
        f"{outcome.runs:,} workflows in {outcome.seconds:.0f} s; "
        f"{len(outcome.wrong)} wrong, {outcome.crashes} ended by an error"
    )
    for line in outcome.wrong[:20]:
        click.echo(f"  {line}")
    if not outcome.came_to_rest:
        click.echo(f"  not everything had ended {REST_SECONDS:.0f} s after the last kill")
    sys.exit(0 if outcome.holds else 1)


if __name__ == "__main__":
    main()
