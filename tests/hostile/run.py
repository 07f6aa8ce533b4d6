"""Run hostile functions against a real worker, and check every end against the promises.

    python -m tests.hostile.run --database sqlite --jobs 20000 --base 1
    python -m tests.hostile.run --database postgres --jobs 500 --base 7 --only 123

Each number is a program (`tests.hostile.programs`). Checked for each job, when all have ended:

* a success left exactly what its program says; anything else left nothing: no document, no row, no scheduled job;
* what must fail has failed; what nothing disturbs has succeeded;
* no job is left over, and the worker lives;
* actions that are canceled and stopped at random moments end as they should (`tests.hostile.stops`);
* runs of hostile workflows leave what they should, and end as they should (`tests.hostile.runs`);
* finalisers raise nothing but what is expected of them (`tests.hostile.unraisable`).
"""

import contextlib
import logging
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import psycopg

from evertick import App, MutationCtx
from tests.hostile.programs import EARLY, Left, Performance, Program, at, collect, program_of, replay, result_of
from tests.hostile.runs import run_flows
from tests.hostile.stops import run_stops
from tests.hostile.unraisable import collecting_unraisable
from tests.places import with_plain_names

HURRIED_S: Final = 0.02
SHOWN_MAX: Final = 20
LOOK_S: Final = 0.1
STUCK_S: Final = 60.0
CALM_S: Final = 30
"""More than a busy machine ever takes: what is calm must succeed, and no limit may strike it."""

OWN_TABLES: Final = (
    "create table notes (job integer, tag text)",
    "create table uniques (n integer primary key)",
    "create table present (n integer primary key)",
    "create table late_notes (job integer, missing integer references present (n) deferrable initially deferred)",
)


@dataclass(slots=True)
class Verdict:
    """What came of a run."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    finalised: Counter[str] = field(default_factory=Counter)
    """What finalisers raised, as they should."""


def hostile_app(url: str, base: int) -> App:
    """An app whose functions do what programs say."""
    app = App("hostile", database_url=with_plain_names(url))

    def run(ctx: MutationCtx, number: int) -> Any:
        program = program_of(number, base)
        result = result_of(program.result, number)  # first: making it may collect garbage
        Performance(ctx, program, inner, child).perform(program.steps, [])
        return result

    @app.mutation(name="calm", timeout=CALM_S)
    def calm(ctx: MutationCtx, number: int) -> Any:
        return run(ctx, number)

    @app.mutation(name="hurried", timeout=HURRIED_S)
    def hurried(ctx: MutationCtx, number: int) -> Any:
        return run(ctx, number)

    @app.mutation(name="inner")
    def inner(ctx: MutationCtx, number: int, path: list[int]) -> None:
        program = program_of(number, base)
        Performance(ctx, program, inner, child).perform(at(program.steps, path), path)

    @app.mutation(name="child")
    def child(ctx: MutationCtx, number: int, tag: str) -> None:
        ctx.db.insert("children", {"job": number, "tag": tag})

    return app


def run_programs(url: str, numbers: list[int], base: int) -> Verdict:
    """Schedule the programs, let a worker run them, and judge what they left."""
    app = hostile_app(url, base)
    app.migrate()
    with connected(url) as connection:
        for statement in OWN_TABLES:
            connection.execute(statement)
    calls = [
        app.functions.resolve("hurried" if program_of(number, base).hurried else "calm").with_args(number)
        for number in numbers
    ]
    ids: list[str] = []
    for begin in range(0, len(calls), 500):
        ids += app.scheduler.run_after_many(0, calls[begin : begin + 500])
    verdict = Verdict()
    with collecting_unraisable() as unraised:
        try:
            with app.running():
                _wait(url, verdict)
                collect()
        except BaseException as error:
            verdict.faults.append(f"the worker ended with {type(error).__name__}: {error}")
        collect()
    verdict.faults += unraised.faults
    verdict.finalised = unraised.expected
    if not verdict.faults:
        _judge(url, dict(zip(numbers, ids, strict=True)), base, verdict)
    app.close()
    return verdict


@contextlib.contextmanager
def connected(url: str) -> Iterator[Any]:
    """A plain connection to the database."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
    else:
        connection = psycopg.connect(url)
    with contextlib.closing(connection), connection:
        yield connection


def _wait(url: str, verdict: Verdict) -> None:
    """Until nothing is pending, or nothing has ended for a minute."""
    last, since = -1, time.monotonic()
    with connected(url) as connection:
        if hasattr(connection, "autocommit"):
            connection.autocommit = True
        while True:
            [(pending,)] = connection.execute(
                "select count(*) from jobs where state in ('pending', 'in_progress')"
            ).fetchall()
            if pending == 0:
                return
            if pending != last:
                last, since = pending, time.monotonic()
            if time.monotonic() - since > STUCK_S:
                verdict.faults.append(f"{pending} jobs are stuck")
                return
            time.sleep(LOOK_S)


def _judge(url: str, ids: dict[int, str], base: int, verdict: Verdict) -> None:
    left = _what_is_left(url)
    aborts = not url.startswith("sqlite")
    with connected(url) as connection:
        states = dict(
            connection.execute("select id, state from jobs union all select id, state from history").fetchall()
        )
        errors = dict(
            connection.execute("select id, substr(error, 1, 200) from history where error is not null").fetchall()
        )
    for number, job_id in ids.items():
        program, state = program_of(number, base), states[job_id]
        verdict.ends[state] += 1
        fault = fault_of(program, state, left.get(number, Left(Counter(), Counter(), Counter())), aborts=aborts)
        if fault is not None:
            verdict.faults.append(f"program {number} ({state}): {fault}; error {errors.get(job_id)}")


def fault_of(program: Program, state: str, found: Left, *, aborts: bool) -> str | None:
    """What is wrong with how a program ended, or None; `aborts` as for `replay`."""
    wanted = replay(program, aborts=aborts)
    if state == "success":
        if wanted is None:
            return "it must fail"
        if (found.things, found.notes, found.children) != (wanted.things, wanted.notes, wanted.children):
            return f"it left {found}, not {wanted}"
        return None
    if found.things or found.notes or found.children:
        return f"it left {found}"
    if wanted is not None and not program.hurried and not wanted.spoiled:
        return "it must succeed"
    return None


def _what_is_left(url: str) -> dict[int, Left]:
    found: dict[int, Left] = {}

    def of(number: int) -> Left:
        return found.setdefault(number, Left(Counter(), Counter(), Counter()))

    app = App("reader", database_url=url)
    for document in _all(app, "things"):
        if not document["tag"].endswith(EARLY):
            of(document["job"]).things[document["tag"]] += 1
    for document in _all(app, "children"):
        of(document["job"]).children[document["tag"]] += 1
    app.close()
    with connected(url) as connection:
        for number, tag in connection.execute("select job, tag from notes").fetchall():
            of(number).notes[tag] += 1
    return found


def _all(app: App, table: str) -> Iterator[Any]:
    @app.query(name=f"all_{table}", timeout=600)
    def all_of(ctx: Any) -> list[dict[str, Any]]:
        return [{"job": each["job"], "tag": each["tag"]} for each in ctx.db.query(table)]

    yield from app.call(all_of)


def _told(ends: Counter[str]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in sorted(ends.items()))


@click.command()
@click.option("--database", type=click.Choice(("sqlite", "postgres")), default="sqlite")
@click.option("--jobs", default=20_000)
@click.option("--base", default=1, help="The seed of all programs.")
@click.option("--only", default=None, type=int, help="One program alone.")
def main(database: str, jobs: int, base: int, only: int | None) -> None:
    """Run hostile functions and print what came of them."""
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    numbers = [only] if only is not None else list(range(jobs))
    with contextlib.ExitStack() as stack:
        if database == "sqlite":
            folder = Path(tempfile.mkdtemp(prefix="hostile-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            url = f"sqlite:///{folder}/hostile.db"
        else:
            from tests.postgres import PostgresServer

            url = stack.enter_context(PostgresServer()).databases.create()
        verdict = run_programs(url, numbers, base)
        flows: Counter[str] = Counter()
        if only is None:
            verdict.faults += run_stops(url, max(100, jobs // 20), base)
            faults, flows = run_flows(url, max(100, jobs // 10), base)
            verdict.faults += faults
    for fault in verdict.faults[:SHOWN_MAX]:
        click.echo(fault)
    click.echo(f"{database}: {len(numbers):,} hostile jobs: {_told(verdict.ends)}")
    click.echo(f"{flows.total():,} hostile workflows: {_told(flows)}; {time.monotonic() - began:.0f} s in all")
    for what, count in sorted(verdict.finalised.items()):
        click.echo(f"{count:,} {what}")
    click.echo(f"{len(verdict.faults)} faults (base {base})")
    sys.exit(1 if verdict.faults else 0)


if __name__ == "__main__":
    main()
