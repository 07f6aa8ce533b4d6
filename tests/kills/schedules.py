"""Kill evaluators and workers under load, and prove that no occurrence was lost and none doubled.

    python -m tests.kills.schedules --kills 200 --occurrences 20000

Four processes on one PostgreSQL, each an evaluator and a worker, look after some hundred schedules of every second. At
any moment one of them is killed by SIGKILL, or stopped for longer than its lease and continued. When there have been
enough kills and occurrences, everything is paused and what runs ends. Then the ledger is compared with the seconds that
have passed, the jobs with the ledger, and what the functions wrote with the jobs.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import click
import psycopg

from evertick.base.errors import Conflict
from evertick.base.ids import DEFAULT_TENANT, IdMaker, ScheduleId, system_entropy
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind
from evertick.engine.schedules import commands as schedule_requests
from evertick.engine.schedules.commands import Requester
from evertick.rules.schedules.events import Paused
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.store.open import open_store
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from tests.kills.fire import Fire, Struck
from tests.kills.schedule_program import run_worker
from tests.postgres import PostgresServer
from tests.schedules.rows import schedule_row

WORKERS: Final = 4
LOOK_SECONDS: Final = 0.05
TIME_MAX_SECONDS: Final = 480.0
REST_SECONDS: Final = 120.0
OVERLAPS: Final = (Overlap.ALLOW_ALL, Overlap.ALLOW_ALL, Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.BUFFER_ALL)
UNFINISHED: Final = """
select (select count(*) from jobs where state in ('pending', 'in_progress'))
     + (select count(*) from occurrences where fate = 'buffered') + (select count(*) from run_reports)
"""


def overlap_of(number: int) -> Overlap:
    """The policy of schedule number `number`."""
    return OVERLAPS[number % len(OVERLAPS)]


@dataclass(slots=True)
class Outcome(Struck):
    """One whole run."""

    occurrences: int = 0
    runs: int = 0
    seconds: float = 0.0
    came_to_rest: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Nothing lost, nothing doubled, and nobody died but by our hand."""
        return self.came_to_rest and not self.crashes and not self.wrong


def run(server: PostgresServer, *, kills: int, occurrences: int, schedules: int) -> Outcome:
    """Burn one database until there were so many kills and occurrences."""
    began, outcome = time.monotonic(), Outcome()
    url = server.databases.create()
    store = open_store(url)
    store.migrate()
    created_at = _create(store, schedules)
    fire = Fire(outcome, run_worker, url, workers=WORKERS)
    fire.start()
    try:
        _burn(fire, outcome, url, kills, occurrences)
        _pause(store, schedules)
        deadline = time.monotonic() + REST_SECONDS
        while time.monotonic() < deadline and not outcome.came_to_rest:
            fire.tend(all_awake=True)
            time.sleep(LOOK_SECONDS * 4)
            outcome.came_to_rest = _one(url, UNFINISHED) == 0
    finally:
        fire.stop()
        store.close()
    with psycopg.connect(url) as connection:
        _count(connection, outcome)
        outcome.wrong += _judge(connection, created_at, schedules)
    outcome.seconds = time.monotonic() - began
    return outcome


def _create(store: Store, schedules: int) -> Instant:
    now, by = _requester()

    def create(tx: Transaction) -> None:
        for number in range(schedules):
            overlap = overlap_of(number)
            kind = FunctionKind.MUTATION if number % 2 and overlap is Overlap.ALLOW_ALL else FunctionKind.ACTION
            row = schedule_row(
                f"s{number}",
                now=now,
                spec={"intervals": [{"every": "1s"}]},
                function="tick" if kind is FunctionKind.MUTATION else "work",
                kind=kind,
                policies=Policies(overlap=overlap, buffer_limit=5),
                run_id_template=f"s{number}-{{nominal}}",
            )
            schedule_requests.create(tx, row, (), by)

    store.write(create)
    return now


def _burn(fire: Fire, outcome: Outcome, url: str, kills: int, occurrences: int) -> None:
    deadline = time.monotonic() + TIME_MAX_SECONDS
    next_kill = time.monotonic() + 1.0
    while outcome.kills < kills or _one(url, "select count(*) from occurrences") < occurrences:
        fire.tend()
        if time.monotonic() >= next_kill:
            fire.strike()
            next_kill = time.monotonic() + random.uniform(0.05, 0.5)
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {outcome.kills} kills in {TIME_MAX_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)


def _pause(store: Store, schedules: int) -> None:
    """Pause everything, schedule by schedule, while the evaluators go on."""
    for number in range(schedules):
        _, by = _requester()
        event = Paused(at=by.now, note="the end")

        def pause(tx: Transaction, number: int = number, by: Requester = by, event: Paused = event) -> None:
            change = schedule_requests.Change(action="paused", events=[event])
            schedule_requests.apply(tx, ScheduleId(f"s{number}"), change, by)

        while True:
            try:
                store.write(pause)
            except Conflict:
                continue
            break


def _requester() -> tuple[Instant, Requester]:
    now = Instant(time.time_ns() // 1_000_000)
    ids = IdMaker(system_entropy())
    return now, Requester(tenant=DEFAULT_TENANT, actor="fire", now=now, make_id=ids.make)


def _one(url: str, query: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0


# -- the verdict


def _count(connection: "psycopg.Connection[Any]", outcome: Outcome) -> None:
    for reason, count in connection.execute("select reason, count(*) from occurrences group by 1").fetchall():
        outcome.reasons[reason] = count
    for name, count in connection.execute("select outcome, count(*) from occurrences group by 1").fetchall():
        outcome.outcomes[str(name)] = count
    outcome.occurrences = outcome.reasons.total()
    outcome.runs = sum(count for name, count in outcome.outcomes.items() if name != "None")


def _judge(connection: "psycopg.Connection[Any]", created_at: Instant, schedules: int) -> Iterator[str]:
    """What is lost, doubled, overlapping or out of order."""
    for number in range(schedules):
        name, overlap = f"s{number}", overlap_of(number)
        query = """select nominal_at, fate, started_at, ended_at from occurrences where schedule_id = %s
                    order by nominal_at"""
        rows = connection.execute(query, (name,)).fetchall()
        (paused_at,) = connection.execute(
            "select at from schedule_history where schedule_id = %s and action = 'paused'", (name,)
        ).fetchone() or (0,)
        found = [row[0] for row in rows]
        # An evaluator whose clock is some milliseconds ahead may have seen one more than whoever paused it.
        expected = list(range(created_at // 1000 * 1000 + 1000, max(paused_at, found[-1] if found else 0) + 1, 1000))
        if found != expected:
            yield f"{name}: lost {sorted(set(expected) - set(found))[:5]}, invented {set(found) - set(expected)}"
        runs = [row[2:] for row in rows if row[1] == "started"]
        if overlap is not Overlap.ALLOW_ALL:
            pairs = pairwise(runs)
            yield from (f"{name}: {one} and {two} overlap" for one, two in pairs if one[1] is None or two[0] < one[1])
    for what, query in WRONG.items():
        found = connection.execute(f"{EVERY_JOB} {query}".encode()).fetchall()
        yield from (f"{what}: {row}" for row in found)


EVERY_JOB: Final = """
with every_job as (
  select id, kind, state, schedule from jobs
  union all select id, kind, state, schedule from history)"""
WRONG: Final = {
    "two jobs for one occurrence": """
        select schedule::json ->> 'id', schedule::json ->> 'nominal_at', count(*) from every_job group by 1, 2
        having count(*) > 1""",
    "a job that its ledger does not know": """
        select j.id from every_job j left join occurrences o on o.job_id = j.id where o.job_id is null""",
    "a row without its job": """
        select o.schedule_id, o.nominal_at from occurrences o left join every_job j on j.id = o.job_id
         where o.fate = 'started' and (j.id is null or o.ended_at is null)""",
    "a mutation that ran twice": "select body::json ->> 'of', count(*) from documents group by 1 having count(*) > 1",
    "a mutation that did not run": """
        select j.id from every_job j where j.kind = 'mutation' and j.state = 'success'
           and not exists (select from documents d where d.body::json ->> 'of' = j.schedule::json ->> 'run_id')""",
    "a counter that is not the number of rows": """
        select o.schedule_id, o.reason, count(*), s.state::json -> 'counters' ->> o.reason
          from occurrences o join schedules s on s.id = o.schedule_id
         group by o.schedule_id, o.reason, s.state having count(*)::text <> s.state::json -> 'counters' ->> o.reason""",
}


def show(outcome: Outcome) -> None:
    """The figures of a run."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in outcome.reasons.most_common())
    outcomes = ", ".join(f"{count:,} {name}" for name, count in outcome.outcomes.most_common() if name != "None")
    click.echo(
        f"postgres: {outcome.kills} kills, {outcome.zombies} zombies, {outcome.occurrences:,} occurrences, "
        f"{outcome.runs:,} runs in {outcome.seconds:.0f} s"
    )
    click.echo(f"fates: {reasons}\nruns: {outcomes}")
    click.echo(f"{len(outcome.wrong)} wrong, {outcome.crashes} ended by an error")
    for line in outcome.wrong[:20]:
        click.echo(f"  {line}")
    if not outcome.came_to_rest:
        click.echo(f"  not everything had ended {REST_SECONDS:.0f} s after the last kill")


@click.command()
@click.option("--kills", default=200, show_default=True, help="How many SIGKILLs at least.")
@click.option("--occurrences", default=20_000, show_default=True, help="How many occurrences at least.")
@click.option("--schedules", default=300, show_default=True, help="How many schedules of every second.")
def main(kills: int, occurrences: int, schedules: int) -> None:
    """Kill real processes; see the module's text."""
    with PostgresServer(fsync=True) as server:
        outcome = run(server, kills=kills, occurrences=occurrences, schedules=schedules)
    show(outcome)
    sys.exit(0 if outcome.holds else 1)


if __name__ == "__main__":
    main()
